package v1alpha1

// MergeRemovals returns a list with those entries of another one that it lacks, as far as there is room. Each name stands once:
// the first list counts.
func MergeRemovals(list, more []Removal) []Removal {
	if len(more) == 0 {
		return list
	}
	names := make(map[string]bool, len(list)+len(more))
	for i := range list {
		names[list[i].Name] = true
	}
	all := list[:len(list):len(list)]
	for i := range more {
		if !names[more[i].Name] && len(all) < MaxRemovals {
			names[more[i].Name] = true
			all = append(all, more[i])
		}
	}
	return all
}
