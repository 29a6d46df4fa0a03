package state

import "testing"

func TestOwnerTagIsParsedFromTheDescriptionOfAPort(t *testing.T) {
	m := Tag{PortKind, "c1", "u1", 3}
	if got, ok := parseTag(PortKind, m.String()); !ok || got != m {
		t.Errorf("got %+v", got)
	}
	for _, foreign := range []string{"", "my port", "drover a b", "drover a b c", "other a b 1", "drover a b 1 2"} {
		if _, ok := parseTag(PortKind, foreign); ok {
			t.Errorf("%q is not of this cluster", foreign)
		}
	}
}
