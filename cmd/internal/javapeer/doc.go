// Package javapeer runs ZooKeeper and Apache's bookies as real processes on
// loopback, for tests against them.
//
// Setup fetches their jars by Maven once, into a cache directory (that of the
// user, or LOGLODE_JAVA_CACHE); after that no network is needed. It takes a
// JDK 17 or later and Maven in PATH and says so when they are missing. Versions
// are pinned in pom.xml.
//
// Processes are of package proc: they start on free ports, are ready when they
// answer, are stopped by their process id, and end with the test process at the
// latest. Their output goes to a file each in the directory given.
package javapeer
