package orphans

import (
	"testing"
	"time"

	"github.com/drover-project/drover/machines/safety/orphans/verdict"
)

func TestANodeIsReadAgainBeforeItsDrain(t *testing.T) {
	dead := verdict.Node{Name: "n", UID: "u", OwnedBy: "m", Changed: time.Unix(1, 0)}
	works := dead
	works.Ready, works.Changed = true, time.Unix(2, 0)
	other := dead
	other.UID = "another"
	for name, tc := range map[string]struct {
		now, judged verdict.Node
		same        bool
	}{
		"a Node that became NotReady after drover had decided to drain it is drained (MCM-81)":          {dead, works, true},
		"a Node that became Ready after drover had decided to drain it is not drained (MCM-81)":         {works, dead, false},
		"a new Node with the name of the Node that drover had decided to drain is not drained (MCM-81)": {other, dead, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := sameNode(tc.now, tc.judged); got != tc.same {
				t.Errorf("sameNode() = %v", got)
			}
		})
	}
}
