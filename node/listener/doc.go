// Package listener is what the HTTP listeners of a node have in common: an address, TLS, tokens in a file, and a guard
// in front of what not everybody may ask. The one for operators is package admin, the one for applications package api.
//
// # Who may ask
//
// A guarded request must carry a token, if there are any: "Authorization: Bearer TOKEN". Where there is none, the
// listener takes requests from this machine only: New refuses any address but a loopback one, unless the protocol is
// one whose clients have no token (Config.Open). What a token allows is for the package that serves to say (Grammar).
//
// Two attacks come from a browser that runs on such a machine, and both are refused whether there is a token or not. A
// page of another site may send requests here: what changes something must come from our own origin or from no browser
// at all (http.CrossOriginProtection). And a foreign name may be made to resolve to 127.0.0.1, which makes a foreign
// page our own origin: without a token, the request must name the host by an address or as localhost.
package listener
