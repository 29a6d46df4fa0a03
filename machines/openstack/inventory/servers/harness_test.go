package servers

import "time"

const testCluster = "c1"

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// newCache returns a Cache whose hooks return false for every server.
func newCache() *Cache {
	no := func(*Known) bool { return false }
	return New(testCluster, Hooks{Remembered: no, Awaited: no})
}
