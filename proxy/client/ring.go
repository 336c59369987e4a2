package client

import (
	"crypto/md5"
	"encoding/binary"
	"slices"
	"strconv"
	"unicode/utf16"

	"github.com/loglode/loglode/proxy/wire"
)

// replicas is how many points a shard has on the ring. Java clients count on
// it: do not change.
const replicas = 997

// hash is DistributedLog's: the first 8 bytes, little-endian, of MD5 over the
// text in UTF-16LE.
func hash(s string) int64 {
	var buf []byte
	for _, u := range utf16.Encode([]rune(s)) {
		buf = binary.LittleEndian.AppendUint16(buf, u)
	}
	sum := md5.Sum(buf)
	return int64(binary.LittleEndian.Uint64(sum[:]))
}

// pointName is the text that a shard's point is the hash of.
func pointName(shard, replica int, javaAddr string) string {
	return "shard-" + strconv.Itoa(shard) + "-" + strconv.Itoa(replica) + "-" + javaAddr
}

// ring orders proxies for a stream.
type ring struct {
	points []point // by hash, signed
	hosts  int
}

type point struct {
	hash int64
	addr string
}

// newRing makes the ring of these shards.
func newRing(shards map[int]string) *ring {
	r := &ring{hosts: len(shards), points: make([]point, 0, len(shards)*replicas)}
	for shard, addr := range shards {
		java := wire.JavaAddress(addr)
		for i := range replicas {
			r.points = append(r.points, point{hash(pointName(shard, i, java)), addr})
		}
	}
	slices.SortFunc(r.points, func(a, b point) int {
		switch {
		case a.hash < b.hash:
			return -1
		case a.hash > b.hash:
			return 1
		}
		return 0
	})
	return r
}

// order gives each host once, in the order in which a stream tries them.
func (r *ring) order(name string) []string {
	h := hash(name)
	at, _ := slices.BinarySearchFunc(r.points, h, func(p point, h int64) int {
		switch {
		case p.hash < h:
			return -1
		case p.hash > h:
			return 1
		}
		return 0
	})
	var out []string
	for i := range r.points {
		p := r.points[(at+i)%len(r.points)]
		if !slices.Contains(out, p.addr) {
			if out = append(out, p.addr); len(out) == r.hosts {
				break
			}
		}
	}
	return out
}
