package v1alpha1

import (
	"slices"
	"testing"
)

func TestMostSimilarNamesAreSuggestedForAnUnknownName(t *testing.T) {
	for _, tt := range []struct {
		what, name  string
		known, want []string
	}{
		{"at most three names are suggested, the most similar first", "m1.smal", []string{"m1.tall", "m2.small", "m1.small", "m1.smalls", "m1.small"}, []string{"m1.small", "m1.smalls", "m2.small"}},
		{"a name that differs only in the case of its letters is suggested", "M1.SMALL", []string{"m1.small"}, []string{"m1.small"}},
		{"a name that differs too much is not suggested", "large", []string{"m1.small"}, nil},
	} {
		t.Run(tt.what+" (F-55)", func(t *testing.T) {
			if got := Nearest(tt.name, tt.known, 3); !slices.Equal(got, tt.want) {
				t.Errorf("Nearest() = %q, want %q", got, tt.want)
			}
		})
	}
}
