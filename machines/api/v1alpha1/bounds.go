package v1alpha1

import (
	"fmt"
	"strconv"
)

// Bounds are the minimum and the maximum size of a node group, as its annotations set them.
type Bounds struct {
	// Min and Max are the smallest and the largest number of Machines. They are valid only when Listed is true.
	Min, Max int32
	// Empty reports whether an annotation sets a maximum of 0.
	Empty bool
	// Listed reports whether the object is a node group: it has a maximum of at least 1.
	Listed bool
	// MinMissing reports whether no annotation sets a minimum. Min is 0 then, and the caller should warn about it.
	MinMissing bool
	// MaxLowered reports whether the annotation asks for more than [MaxReplicas]. Max is MaxReplicas then, and the caller should warn
	// about it.
	MaxLowered bool
}

// Clamp limits size to the bounds. It returns size unchanged when the object is not a node group.
func (b Bounds) Clamp(size int32) int32 {
	if !b.Listed {
		return size
	}
	return min(max(size, b.Min), b.Max)
}

// ParseBounds reads the limits from an object's annotations. When an object has several spellings of an annotation, the first one in
// AnnotationsMinSize or AnnotationsMaxSize counts. Without a maximum, or with a maximum of 0, the object is not a node group, which is
// not an error. A value that is not a whole number ≥ 0, or a minimum above the maximum, is an error that names the annotation and the
// value; the object is then not a node group. A maximum above [MaxReplicas] counts as MaxReplicas; a minimum above MaxReplicas is an
// error.
func ParseBounds(annotations map[string]string) (Bounds, error) {
	maxKey, maxValue, ok := firstOf(annotations, AnnotationsMaxSize)
	if !ok {
		return Bounds{}, nil
	}
	upper, err := parseSize(maxKey, maxValue)
	if err != nil {
		return Bounds{}, err
	}
	bounds := Bounds{Max: min(upper, MaxReplicas), Empty: upper == 0, Listed: upper >= 1, MaxLowered: upper > MaxReplicas}
	minKey, minValue, given := firstOf(annotations, AnnotationsMinSize)
	if !given {
		bounds.MinMissing = true
		return bounds, nil
	}
	lower, err := parseSize(minKey, minValue)
	if err != nil {
		return Bounds{}, err
	}
	if lower > MaxReplicas {
		return Bounds{}, fmt.Errorf("annotation %s is %d, and a node group has at most %d Machines: lower the minimum", minKey, lower, MaxReplicas)
	}
	if lower > upper {
		return Bounds{}, fmt.Errorf("annotation %s is %d, above annotation %s, which is %d: lower the minimum or raise the maximum",
			minKey, lower, maxKey, upper)
	}
	bounds.Min = lower
	return bounds, nil
}

func firstOf(annotations map[string]string, keys []string) (key, value string, ok bool) {
	for _, key := range keys {
		if value, ok := annotations[key]; ok {
			return key, value, true
		}
	}
	return "", "", false
}

func parseSize(key, value string) (int32, error) {
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("annotation %s has the value %q: it must be a whole number from 0 to %d", key, value, MaxReplicas)
	}
	return int32(n), nil
}
