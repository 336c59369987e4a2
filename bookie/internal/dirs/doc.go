// Package dirs makes and locks the data directories of a bookie. Below each
// directory, everything lies in "current", as in Apache's bookie:
//
//	DIR/LOCK              held while a bookie runs
//	DIR/current/VERSION   the cookie: whose directory it is
//	DIR/current/…         journal files, or entry logs and the index
//
// A crash can leave: a directory without a cookie, if it was never served from.
//
// Called by bookie.Open, before anything else is opened.
package dirs
