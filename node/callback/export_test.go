package callback

import "strconv"

// KnownAfter returns how many hosts are known after that many have been asked in turn, and none has answered.
func KnownAfter(asked int) int {
	var h hosts
	l := &lane{Lane: Default("http:test")}
	for i := range asked {
		if v, err := h.enter(place{"http:test", strconv.Itoa(i)}, l, 0); err == nil {
			v.leave(true, false)
		}
	}
	return len(h.all)
}

// MostHosts is how many hosts that do not answer are known at most.
const MostHosts = mostHosts
