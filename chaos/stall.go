package chaos

import "github.com/Shopify/toxiproxy/v2/toxics"

// stall is a toxic that holds every byte and delivers all of them when it is removed: a request may take effect long
// after its sender has given up. None of the toxics that come with toxiproxy does that: timeout drops the bytes.
type stall struct{}

// Pipe implements toxics.Toxic: it reads nothing, so that the bytes stay where they are.
func (s *stall) Pipe(stub *toxics.ToxicStub) { <-stub.Interrupt }
