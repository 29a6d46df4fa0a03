package v1alpha1

import (
	"strings"
	"testing"
)

const (
	minKey = "cluster.k8s.io/cluster-api-autoscaler-node-group-min-size"
	maxKey = "cluster.k8s.io/cluster-api-autoscaler-node-group-max-size"
)

func TestParseBoundsReadsTheSizeAnnotations(t *testing.T) {
	tests := map[string]struct {
		annotations map[string]string
		want        Bounds
		errNames    []string
	}{
		"an object with a minimum and without a maximum is not a node group, and that is not an error (MC-69)": {map[string]string{minKey: "1"}, Bounds{}, nil},
		"a missing minimum counts as 0 and is reported as missing (MC-69)":                                     {map[string]string{maxKey: "3"}, Bounds{Max: 3, Listed: true, MinMissing: true}, nil},
		"the minimum and the maximum are read from their annotations":                                          {map[string]string{minKey: "1", maxKey: "3"}, Bounds{Min: 1, Max: 3, Listed: true}, nil},
		"a minimum that equals the maximum is accepted":                                                        {map[string]string{minKey: "3", maxKey: "3"}, Bounds{Min: 3, Max: 3, Listed: true}, nil},
		"an object with a maximum of 0 is not a node group":                                                    {map[string]string{minKey: "0", maxKey: "0"}, Bounds{Empty: true}, nil},
		"the older annotation keys cluster-autoscaler/min-size and max-size are read":                          {map[string]string{"cluster-autoscaler/min-size": "2", "cluster-autoscaler/max-size": "4"}, Bounds{Min: 2, Max: 4, Listed: true}, nil},
		"Cluster API's annotation keys take precedence over cluster-autoscaler/min-size and max-size":          {map[string]string{maxKey: "3", "cluster-autoscaler/max-size": "4", minKey: "1"}, Bounds{Min: 1, Max: 3, Listed: true}, nil},
		"a maximum that is text is an error that names the annotation and its value":                           {map[string]string{maxKey: "many"}, Bounds{}, []string{maxKey, `"many"`}},
		"an empty maximum is an error that names the annotation and its value":                                 {map[string]string{maxKey: ""}, Bounds{}, []string{maxKey, `""`}},
		"a negative minimum is an error that names the annotation and its value":                               {map[string]string{minKey: "-1", maxKey: "3"}, Bounds{}, []string{minKey, `"-1"`}},
		"a maximum that needs more than 32 bits is an error that names the annotation and its value":           {map[string]string{maxKey: "4294967296"}, Bounds{}, []string{maxKey, "4294967296"}},
		"a maximum above 100000 counts as 100000 (F-29)":                                                       {map[string]string{minKey: "1", maxKey: "2147483647"}, Bounds{Min: 1, Max: MaxReplicas, Listed: true, MaxLowered: true}, nil},
		"a minimum above 100000 is an error that names the annotation and its value (F-29)":                    {map[string]string{minKey: "100001", maxKey: "100001"}, Bounds{}, []string{minKey, "100001", "at most 100000"}},
		"a minimum above the maximum is an error that names both annotations and their values":                 {map[string]string{minKey: "5", maxKey: "3"}, Bounds{}, []string{minKey, "5", maxKey, "3"}},
		"an unreadable minimum without a maximum is ignored":                                                   {map[string]string{minKey: "x"}, Bounds{}, nil},
		"an unreadable maximum under the older key is ignored when Cluster API's key is set":                   {map[string]string{maxKey: "3", minKey: "0", "cluster-autoscaler/max-size": "x"}, Bounds{Max: 3, Listed: true}, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := ParseBounds(tt.annotations)
			if got != tt.want {
				t.Errorf("ParseBounds() = %+v, want %+v", got, tt.want)
			}
			if (err != nil) != (tt.errNames != nil) {
				t.Fatalf("ParseBounds() returned error %v, want one: %v", err, tt.errNames != nil)
			}
			for _, word := range tt.errNames {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("the error %q does not name %s", err, word)
				}
			}
		})
	}
}

func TestClampKeepsASizeInsideTheBounds(t *testing.T) {
	group := Bounds{Min: 2, Max: 5, Listed: true}
	for size, want := range map[int32]int32{0: 2, 2: 2, 4: 4, 9: 5} {
		if got := group.Clamp(size); got != want {
			t.Errorf("Clamp(%d) = %d, want %d", size, got, want)
		}
	}
	if got := (Bounds{}).Clamp(9); got != 9 {
		t.Errorf("an object without bounds was clamped to %d", got)
	}
}
