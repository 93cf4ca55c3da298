package kafka

// How long Poll rests after few records, and how long it waits for some.
const (
	PollRest = pollRest
	PollWait = pollWait
)

// Buffered returns the bytes that are held before they are polled. Nobody else can see them.
func (s *Source) Buffered() int64 {
	s.turn.Lock()
	defer s.turn.Unlock()
	if s.member == nil {
		return 0
	}
	held := s.member.client.BufferedFetchBytes()
	for _, f := range s.member.rest {
		held += int64(f.size())
	}
	return held
}
