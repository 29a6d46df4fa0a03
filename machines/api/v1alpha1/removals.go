package v1alpha1

// MergeRemovals returns list, followed by the entries of more that list lacks, up to MaxRemovals entries. Each name occurs once: an
// entry of list takes precedence.
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
