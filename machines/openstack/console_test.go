package openstack

import (
	"strings"
	"testing"
)

func TestConsoleOutputReturnsTheLastBytesOfTheConsole(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	i, s := b.active(newMachine(t, "a", seedFields()))
	const last = "kubelet: no route to host\n"
	b.sim.SetConsole(s.ID, "cloud-init: "+strings.Repeat("x", 5000)+"\n"+last)
	for _, bytes := range []int{4096, len(last)} {
		text, err := i.ConsoleOutput(b.ctx, bytes)
		if err != nil || len(text) != bytes || !strings.HasSuffix(text, last) {
			t.Errorf("of the last %d bytes came %d, %v: %q", bytes, len(text), err, text)
		}
	}
}
