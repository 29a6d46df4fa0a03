// Package store holds the objects of the in-memory API server, their revisions and their events, and notifies watchers
// of new events. It has the server's only lock. It knows none of the API's rules.
package store

import (
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/test/kube/memory/internal/catalog"
)

// Record is one stored state of an object. It is immutable, except for Partial.
type Record struct {
	Object *catalog.Object
	Raw    []byte
	// Partial is the encoded metadata, once a client has requested it. The server's lock guards it.
	Partial  []byte
	Revision uint64
}

// Event is the creation, change or deletion of an object. After a deletion, Record is the object's last state.
type Event struct {
	Record   *Record
	Previous *Record
	Gone     bool
	At       time.Time
}

// Store holds the objects of all kinds and their history. Its methods must be called inside of [Store.Do].
type Store struct {
	mu       sync.Mutex
	revision uint64
	serial   int
	tables   map[*catalog.Kind]*table
	watchers map[Watcher]bool
	changed  func(resource string, revision uint64)
}

// table holds the objects of one kind.
type table struct {
	// records are the existing objects by namespace/name.
	records map[string]*Record
	// events are the events after the revision floor, in order.
	events []Event
	// floor is the newest revision whose event was dropped from the history. A watch cannot begin at this revision or
	// an earlier one.
	floor uint64
}

// Watcher follows the events of one kind.
type Watcher interface {
	// Watched returns the kind that the watcher follows.
	Watched() *catalog.Kind
	// Seen returns the newest revision that the watcher has processed.
	Seen() uint64
	// Ring announces a new event. It does not block.
	Ring()
	// Cut ends the watch.
	Cut()
}

// New returns an empty store for the kinds. changed, unless nil, is called after each change with its resource (plural name) and
// revision, before any Watcher sees it.
func New(kinds []*catalog.Kind, changed func(resource string, revision uint64)) *Store {
	s := &Store{tables: map[*catalog.Kind]*table{}, watchers: map[Watcher]bool{}, changed: changed}
	for _, k := range kinds {
		s.tables[k] = &table{records: map[string]*Record{}}
	}
	return s
}

// Do calls a function that reads or changes the store. Only one such function runs at a time.
func (s *Store) Do(what func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	what()
}

// Newest returns the revision of the newest change.
func (s *Store) Newest() uint64 { return s.revision }

// At returns the record of an object.
func (s *Store) At(k *catalog.Kind, namespace, name string) (*Record, bool) {
	r, ok := s.tables[k].records[Key(namespace, name)]
	return r, ok
}

// All returns the records of a kind, in the order in which the API lists them.
func (s *Store) All(k *catalog.Kind) []*Record {
	return s.Select(k, func(*Record) bool { return true })
}

// Select returns the records of a kind for which fits returns true, in the order in which the API lists them.
func (s *Store) Select(k *catalog.Kind, fits func(*Record) bool) []*Record {
	t := s.tables[k]
	var ids []string
	for id, r := range t.records {
		if fits(r) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	out := make([]*Record, len(ids))
	for i, id := range ids {
		out[i] = t.records[id]
	}
	return out
}

// Since returns the events of a kind after a revision.
func (s *Store) Since(k *catalog.Kind, revision uint64) []Event {
	events := s.tables[k].events
	return events[sort.Search(len(events), func(i int) bool { return events[i].Record.Revision > revision }):]
}

// Floor returns the newest revision of a kind whose event was dropped from the history.
func (s *Store) Floor(k *catalog.Kind) uint64 { return s.tables[k].floor }

// Follow registers a Watcher, which is notified of new events.
func (s *Store) Follow(w Watcher) { s.watchers[w] = true }

// Unfollow removes a Watcher.
func (s *Store) Unfollow(w Watcher) { delete(s.watchers, w) }

// CutWatches ends the watches of these resources (plural names), or all watches when resources is empty.
func (s *Store) CutWatches(resources []string) {
	for w := range s.watchers {
		if among(resources, w.Watched()) {
			w.Cut()
		}
	}
}

// Forget drops the history of these resources (plural names) and ends their watches. Empty resources means all
// resources.
func (s *Store) Forget(resources []string) {
	for k, t := range s.tables {
		if among(resources, k) {
			t.events, t.floor = nil, s.revision
		}
	}
	s.CutWatches(resources)
}

// among reports whether resources contains the kind. Empty resources means all kinds.
func among(resources []string, k *catalog.Kind) bool {
	return len(resources) == 0 || slices.Contains(resources, k.Plural)
}

// Key returns the key of an object, by which lists are sorted.
func Key(namespace, name string) string { return namespace + "/" + name }

// Put stores a state of an object under the next revision and wakes the watchers of its kind.
func (s *Store) Put(k *catalog.Kind, o *catalog.Object) (*Record, error) {
	return s.happen(k, o, false)
}

// Drop deletes an object. Watchers see its last state under a new revision.
func (s *Store) Drop(k *catalog.Kind, o *catalog.Object) error {
	_, err := s.happen(k, o, true)
	return err
}

func (s *Store) happen(k *catalog.Kind, o *catalog.Object, gone bool) (*Record, error) {
	s.revision++
	o.SetResourceVersion(strconv.FormatUint(s.revision, 10))
	raw, err := json.Marshal(o.Object)
	if err != nil {
		return nil, err
	}
	r := &Record{Object: o, Raw: raw, Revision: s.revision}
	st, id := s.tables[k], Key(o.GetNamespace(), o.GetName())
	e := Event{Record: r, Previous: st.records[id], Gone: gone, At: time.Now()}
	if gone {
		delete(st.records, id)
	} else {
		st.records[id] = r
	}
	st.events = append(st.events, e)
	s.compact(k, e.At)
	if s.changed != nil {
		s.changed(k.Plural, s.revision)
	}
	for w := range s.watchers {
		if w.Watched() == k {
			w.Ring()
		}
	}
	return r, nil
}

// remembered is how long the history stores an event. It is longer than in the real server, and longer than any test delays a
// watch.
const remembered = time.Hour

// fewEvents is the number of events below which compact does nothing, because it would save little memory.
const fewEvents = 100

// compact drops the older half of a kind's events when all events in that half are too old and no Watcher still waits
// for one of them.
func (s *Store) compact(k *catalog.Kind, now time.Time) {
	t := s.tables[k]
	old := len(t.events) / 2
	if len(t.events) < fewEvents || now.Sub(t.events[old-1].At) < remembered {
		return
	}
	floor := t.events[old-1].Record.Revision
	for w := range s.watchers {
		if w.Watched() == k && w.Seen() < floor {
			return
		}
	}
	t.events, t.floor = slices.Clone(t.events[old:]), floor
}

// NextUID returns a new UID. The sequence of UIDs is the same in every run.
func (s *Store) NextUID() types.UID {
	s.serial++
	return types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", s.serial))
}

const suffixLetters = "bcdfghjklmnpqrstvwxz2456789"

// NextName completes metadata.generateName. The names are the same in every run.
func (s *Store) NextName(prefix string) string {
	s.serial++
	n := s.serial*7919 + 104729*len(suffixLetters)
	var suffix strings.Builder
	for range 5 {
		suffix.WriteByte(suffixLetters[n%len(suffixLetters)])
		n /= len(suffixLetters)
	}
	return prefix + suffix.String()
}

// Now returns the time in the precision of metadata: whole seconds.
func Now() metav1.Time { return metav1.NewTime(time.Now().UTC().Truncate(time.Second)) }
