package benchmarks

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// clockTick is the unit of processor time in /proc: USER_HZ, 100 per second on
// every Linux that Go runs on.
const clockTick = 10 * time.Millisecond

// Usage is processor time spent so far and memory now.
type Usage struct {
	Self, Servers  time.Duration
	ServerRSSBytes int64
}

// ReadUsage reads /proc for this process and the servers. A process that is
// gone counts as nothing.
func ReadUsage(serverPIDs []int) Usage {
	u := Usage{}
	u.Self, _ = procUsage(os.Getpid())
	for _, pid := range serverPIDs {
		cpu, rss := procUsage(pid)
		u.Servers += cpu
		u.ServerRSSBytes += rss
	}
	return u
}

// Since gives the processor time between before and u, and the memory of u.
func (u Usage) Since(before Usage) Usage {
	u.Self -= before.Self
	u.Servers -= before.Servers
	return u
}

func procUsage(pid int) (cpu time.Duration, rssBytes int64) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0
	}
	// The command name, field 2, may hold spaces: go on behind its bracket.
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return 0, 0
	}
	fields := bytes.Fields(stat[end+1:])
	if len(fields) < 22 {
		return 0, 0
	}
	num := func(i int) int64 {
		n, err := strconv.ParseInt(string(fields[i]), 10, 64)
		if err != nil {
			return 0
		}
		return n
	}
	// utime is field 14, stime 15, rss 24 of the line, counted from 1; the
	// slice starts at field 3.
	return time.Duration(num(11)+num(12)) * clockTick, num(21) * int64(os.Getpagesize())
}
