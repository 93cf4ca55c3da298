package admin

import "time"

// ForgetLook has the server look at its token's file with the next request.
func ForgetLook(s *Server) {
	s.token.mu.Lock()
	defer s.token.mu.Unlock()
	s.token.looked = time.Time{}
}
