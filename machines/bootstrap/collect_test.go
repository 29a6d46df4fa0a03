package bootstrap

import (
	"testing"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestTheBootstrapTokenOfAMachineThatNoLongerExistsIsDeletedAndForgotten(t *testing.T) {
	_, _, here := family()
	gone := here.DeepCopy()
	gone.Name, gone.UID = "removed-by-hand", "gone"
	s, c := newSource(t, nil, here)
	for _, m := range []*v1alpha1.Machine{here, gone} {
		if _, err := s.Tokens.Ensure(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	deleted, err := s.Collect(t.Context())
	_, known := s.Tokens.recall(here.UID)
	if err != nil || deleted != 1 || tokensIn(t, c) != 1 || len(s.Tokens.known.Keys()) != 1 || !known {
		t.Errorf("%d deleted, error %v, %d left, remembered %v", deleted, err, tokensIn(t, c), s.Tokens.known.Keys())
	}
}
