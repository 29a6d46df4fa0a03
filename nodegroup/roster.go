package nodegroup

import (
	"slices"
	"strings"
)

// roster is a list of members by name of their Machine. It does not change: the next version is a copy, in which all the
// members are the same but those that something has happened to. So what is known of a member can be taken over from the
// version before wherever the very same member stands in it.
type roster []*member

func compareMembers(a, b *member) int {
	if c := strings.Compare(a.machine.Name, b.machine.Name); c != 0 {
		return c
	}
	if c := strings.Compare(a.machine.Namespace, b.machine.Namespace); c != 0 {
		return c
	}
	return strings.Compare(string(a.machine.UID), string(b.machine.UID))
}

// enrol puts a member on the roster of a key, in the place of its version before. An empty key stands for nothing.
func enrol(d *draft[roster], key string, m *member) {
	if key == "" {
		return
	}
	list := own(d, key)
	at, found := slices.BinarySearchFunc(list, m, compareMembers)
	if found {
		list[at] = m
		return
	}
	d.set(key, slices.Insert(list, at, m))
}

// strike takes a member off the roster of a key.
func strike(d *draft[roster], key string, m *member) {
	at, found := slices.BinarySearchFunc(d.get(key), m, compareMembers)
	if key == "" || !found {
		return
	}
	if list := slices.Delete(own(d, key), at, at+1); len(list) > 0 {
		d.set(key, list)
		return
	}
	d.drop(key)
}

// merged is one roster of several.
func merged(lists []roster) roster {
	lists = slices.DeleteFunc(lists, func(l roster) bool { return len(l) == 0 })
	switch len(lists) {
	case 0:
		return nil
	case 1:
		return lists[0]
	}
	rest := merged(lists[1:])
	first := lists[0]
	all := make(roster, 0, len(first)+len(rest))
	for len(first) > 0 && len(rest) > 0 {
		if compareMembers(first[0], rest[0]) <= 0 {
			all, first = append(all, first[0]), first[1:]
		} else {
			all, rest = append(all, rest[0]), rest[1:]
		}
	}
	return append(append(all, first...), rest...)
}

// nobody is the place of a member that was not there before.
const nobody = -1

// lineup says where the members of a roster stood in the version before, and which of that are gone.
type lineup struct {
	before roster
	was    []int32
	// gone are places in the version before, fresh those in this one at which there is another member, or a new one.
	gone, fresh []int32
}

// lineUp lines up two versions of a roster. Only where they differ are names looked at.
func lineUp(before, now roster) lineup {
	l := lineup{before: before, was: make([]int32, len(now))}
	at := 0
	for i, m := range now {
		for at < len(before) && before[at] != m && compareMembers(before[at], m) < 0 {
			l.gone = append(l.gone, int32(at))
			at++
		}
		l.was[i] = nobody
		if at < len(before) && (before[at] == m || compareMembers(before[at], m) == 0) {
			l.was[i] = int32(at)
			at++
		}
		if !l.same(i, m) {
			l.fresh = append(l.fresh, int32(i))
		}
	}
	for ; at < len(before); at++ {
		l.gone = append(l.gone, int32(at))
	}
	return l
}

// same tells whether nothing has happened to the member at a place of the newer roster.
func (l lineup) same(i int, m *member) bool { return l.was[i] != nobody && l.before[l.was[i]] == m }
