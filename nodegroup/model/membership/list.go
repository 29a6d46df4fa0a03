package membership

import (
	"cmp"
	"slices"
	"strings"

	"github.com/drover-project/drover/nodegroup/model/persistent"
)

// Members is a list of members, sorted by the name of their Machine. The list is immutable once the
// index is sealed.
type Members []*Member

// compare orders members by name, namespace and UID of their Machine.
func compare(a, b *Member) int {
	return cmp.Or(
		strings.Compare(a.Machine.Name, b.Machine.Name),
		strings.Compare(a.Machine.Namespace, b.Machine.Namespace),
		strings.Compare(string(a.Machine.UID), string(b.Machine.UID)),
	)
}

// Has reports whether any version of the member is on the list.
func (l Members) Has(m *Member) bool {
	_, found := slices.BinarySearchFunc(l, m, compare)
	return found
}

// insert adds a member to the list stored under key, or replaces an older version of the member. It
// ignores an empty key.
func insert(t *persistent.Map[Members], key string, m *Member) {
	if key == "" {
		return
	}
	members := persistent.Own(t, key)
	at, found := slices.BinarySearchFunc(members, m, compare)
	if found {
		members[at] = m
		return
	}
	persistent.Put(t, key, slices.Insert(members, at, m))
}

// strike removes a member from the list stored under key.
func strike(t *persistent.Map[Members], key string, m *Member) {
	at, found := slices.BinarySearchFunc(t.Get(key), m, compare)
	if key == "" || !found {
		return
	}
	persistent.Put(t, key, slices.Delete(persistent.Own(t, key), at, at+1))
}

// merge returns one sorted list of all members.
func merge(lists []Members) Members {
	lists = slices.DeleteFunc(lists, func(l Members) bool { return len(l) == 0 })
	switch len(lists) {
	case 0:
		return nil
	case 1:
		return lists[0]
	}
	rest := merge(lists[1:])
	first := lists[0]
	all := make(Members, 0, len(first)+len(rest))
	for len(first) > 0 && len(rest) > 0 {
		if compare(first[0], rest[0]) <= 0 {
			all, first = append(all, first[0]), first[1:]
		} else {
			all, rest = append(all, rest[0]), rest[1:]
		}
	}
	return append(append(all, first...), rest...)
}
