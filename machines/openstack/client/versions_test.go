package client

import "testing"

func TestCreateVersion(t *testing.T) {
	for name, tc := range map[string]struct {
		features CreateFeatures
		want     string
	}{
		"nothing special":       {CreateFeatures{}, ""},
		"Nova tags":             {CreateFeatures{Tags: true}, "2.52"},
		"a volume type":         {CreateFeatures{Tags: true, VolumeType: true}, "2.67"},
		"the spec raises":       {CreateFeatures{Raised: "2.79"}, "2.79"},
		"the spec never lowers": {CreateFeatures{Raised: "2.9", VolumeType: true}, "2.67"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := CreateVersion(tc.features).wanted; got != tc.want {
				t.Fatalf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestSettle(t *testing.T) {
	for name, tc := range map[string]struct {
		version Version
		newest  string
		want    string
		fails   bool
	}{
		"what is wanted":                   {VersionFlavors, "2.93", "2.61", false},
		"the least, below that":            {VersionServerGroups, "2.60", "2.15", false},
		"the base, without a least":        {VersionFlavors, "2.1", "", false},
		"nothing below the least":          {VersionTags, "2.51", "", true},
		"what the spec raises, and is not": {CreateVersion(CreateFeatures{Raised: "2.99"}), "2.93", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tc.version.settle(tc.newest)
			if got != tc.want || (err != nil) != tc.fails {
				t.Fatalf("got %q, %v", got, err)
			}
		})
	}
}
