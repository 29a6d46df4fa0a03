package backoff

import "testing"

func TestJoins(t *testing.T) {
	for _, tt := range []struct {
		name   string
		before string
		well   bool
		nodes  int
		after  string
		slow   bool
	}{
		{"a healthy group remembers nothing", "", true, 5, "", false},
		{"CAPI-26 the first failure of a group without nodes slows it down", "", false, 0, "f", true},
		{"CAPI-26 nodes that there are count as joins", "", false, 3, "jjjf", false},
		{"CAPI-26 half is enough", "jf", false, 0, "jff", true},
		{"CAPI-26 a probe that joins sets the group free", "f", true, 0, "fj", true},
		{"CAPI-26 two do", "fj", true, 0, "fjj", false},
		{"only ten are remembered", "fjjjjjjjjj", true, 0, "", false},
		{"a large group does not remember more", "", false, 500, "jjjjjjjjjf", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			after := withJoin(tt.before, tt.well, tt.nodes)
			if after != tt.after || joinsFail(after) != tt.slow {
				t.Errorf("%q, slow %v", after, joinsFail(after))
			}
		})
	}
}
