package headers

// What the tests compare with each other.
var (
	DecodePlain = decodePlain
	DecodeAny   = decodeAny
)
