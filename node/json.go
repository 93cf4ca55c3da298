package node

import "strconv"

// WholeJSON reports whether what is JSON has all characters that its texts name. Half of a surrogate pair (\ud800) is
// none, and encoding/json puts U+FFFD in its place without a word.
func WholeJSON(raw []byte) bool {
	high := false // the first half of a pair has come
	for len(raw) > 0 {
		unit, size := uint64(0), 1
		if raw[0] == '\\' && len(raw) > 1 {
			size = 2
			if raw[1] == 'u' && len(raw) >= 6 {
				unit, _ = strconv.ParseUint(string(raw[2:6]), 16, 16) // what is JSON has four digits there
				size = 6
			}
		}
		const low, beyond = 0xdc00, 0xe000
		if isLow := unit >= low && unit < beyond; isLow != high {
			return false
		}
		high = unit >= 0xd800 && unit < low
		raw = raw[size:]
	}
	return !high
}
