// Package admin is the HTTP listener of a node for those who operate it: metrics, health probes, and whatever else is
// mounted on it. It is no part of the service's work: a node fires as well without it, and nothing that it serves may
// hold firing up.
//
// # Who may ask for what
//
// A handler is mounted with one of two rights:
//
//   - Open: everybody who reaches the listener may ask. Probes and metrics are open, because what asks for them
//     (a kubelet, a Prometheus) is not given secrets gladly, and because they show counts and never a message.
//   - Guarded: the request must carry the token, if there is one: "Authorization: Bearer TOKEN". Where there is none,
//     the listener takes requests from this machine only: New refuses any address but a loopback one.
//
// What stands behind that, for this listener and others, is package listener.
//
// # To mount something
//
//	server.Handle("GET /v1/lanes", admin.Guarded, handler)
//
// before Run. Patterns are those of http.ServeMux. A handler has 30 s to write its answer; one that streams asks for
// more with http.ResponseController.SetWriteDeadline.
package admin
