package nodegroup

import (
	"cmp"
	"slices"
	"strings"
)

// list are members by name of their Machine. It is immutable once the index is made.
type list []*member

// compare orders members by name, namespace and UID of their Machine.
func compare(a, b *member) int {
	return cmp.Or(
		strings.Compare(a.machine.Name, b.machine.Name),
		strings.Compare(a.machine.Namespace, b.machine.Namespace),
		strings.Compare(string(a.machine.UID), string(b.machine.UID)),
	)
}

// has reports whether the member, in this version or another, is on the list.
func (l list) has(m *member) bool {
	_, found := slices.BinarySearchFunc(l, m, compare)
	return found
}

// insert adds a member to the list of a key, in the place of its version before. An empty key stands for nothing.
func insert(t *table[list], key string, m *member) {
	if key == "" {
		return
	}
	members := own(t, key)
	at, found := slices.BinarySearchFunc(members, m, compare)
	if found {
		members[at] = m
		return
	}
	put(t, key, slices.Insert(members, at, m))
}

// strike removes a member from the list of a key.
func strike(t *table[list], key string, m *member) {
	at, found := slices.BinarySearchFunc(t.get(key), m, compare)
	if key == "" || !found {
		return
	}
	put(t, key, slices.Delete(own(t, key), at, at+1))
}

// merge returns one list of several.
func merge(lists []list) list {
	lists = slices.DeleteFunc(lists, func(l list) bool { return len(l) == 0 })
	switch len(lists) {
	case 0:
		return nil
	case 1:
		return lists[0]
	}
	rest := merge(lists[1:])
	first := lists[0]
	all := make(list, 0, len(first)+len(rest))
	for len(first) > 0 && len(rest) > 0 {
		if compare(first[0], rest[0]) <= 0 {
			all, first = append(all, first[0]), first[1:]
		} else {
			all, rest = append(all, rest[0]), rest[1:]
		}
	}
	return append(append(all, first...), rest...)
}
