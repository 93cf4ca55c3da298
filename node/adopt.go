package node

// CommittedPlace is what a consumer group has committed for a partition.
type CommittedPlace struct {
	Place

	// Kept says that whoever has committed it keeps positions in a store: it is no offset of an older deployment.
	Kept bool
}

// Adoptable returns where a store may begin that comes from an older deployment (BindRequest.Adopt): at what that
// deployment has committed, and not at what nodes that keep positions have. There is none of that, unless the store was
// set back to before its adoption.
func Adoptable(committed []CommittedPlace) []Place {
	places := []Place{}
	for _, c := range committed {
		if !c.Kept {
			places = append(places, c.Place)
		}
	}
	return places
}
