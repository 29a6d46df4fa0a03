package verdict

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
)

func TestTheHealthControllerRecordsReplacements(t *testing.T) {
	t.Run("records each replacement that it starts, with the UID of the Machine (MCM-46)", func(t *testing.T) {
		s := newScene()
		g := s.group("a", 5)
		s.silent(long, "a-1")
		p := Judge(s.World)
		check(t, "record", recordOf(p, g), "a-1")
		check(t, "UID", record(p, g)[0].UID, s.machine("a-1").UID)
	})
	t.Run("keeps the record of a replacement while the Machine is being deleted and until the successor is Ready (MCM-47)", func(t *testing.T) {
		s := newScene()
		g := s.group("a", 5)
		s.began(g, time.Minute, "a-1")
		s.remove("a-1")
		p := Judge(s.World)
		check(t, "record", recordOf(p, g), "a-1")
		check(t, "next look", p.NextLook, noon.Add(11*time.Minute))
	})
	t.Run("keeps the record of a replacement, and replaces others once the successor is Ready (MCM-47, F-142)", func(t *testing.T) {
		s := newScene()
		g := s.group("a", 5)
		s.began(g, 59*time.Minute, "gone")
		s.silent(long, "a-2")
		p := Judge(s.World)
		check(t, "replaced", replaced(p), "a-2")
		check(t, "record", recordOf(p, g), "gone a-2")
		check(t, "replacements that have not ended", p.Replacing, 1)
	})
	t.Run("records a Machine once whose deletion was refused for the time of a replacement and is tried again (MCM-46)", func(t *testing.T) {
		s := newScene()
		g := s.group("a", 5)
		s.began(g, 13*time.Minute, "a-1")
		s.silent(long, "a-1")
		entries := record(Judge(s.World), g)
		check(t, "entries", len(entries), 1)
		check(t, "began", entries[0].Started.Time, noon)
	})
	t.Run("removes the record of a replacement after an hour, together with the next replacement and not by a write of its own (F-142)", func(t *testing.T) {
		s := newScene()
		g := s.group("a", 5)
		s.began(g, time.Hour, "gone")
		check(t, "record while all are healthy", recordOf(Judge(s.World), g), "gone")
		check(t, "next look", Judge(s.World).NextLook, time.Time{})
		s.silent(long, "a-2")
		check(t, "record of the next replacement", recordOf(Judge(s.World), g), "a-2")
	})
	t.Run("of two replacements ends the older one when one of the two successors is Ready (MCM-47)", func(t *testing.T) {
		s := newScene()
		g := s.group("a", 10)
		s.Settings.MaxReplacing = intstr.FromInt32(2)
		s.began(g, 5*time.Minute, "gone")
		s.began(g, time.Minute, "a-1")
		s.remove("a-1")
		s.silent(long, "a-2", "a-3")
		p := Judge(s.World)
		check(t, "replaced", replaced(p), "a-2")
		check(t, "record", recordOf(p, g), "gone a-1 a-2")
	})
	t.Run("drops the oldest ended replacements when the group's status is full (F-142)", func(t *testing.T) {
		s := newScene()
		g := s.group("a", 5)
		for i := range v1alpha1.MaxHealthReplacements {
			s.began(g, 50*time.Minute, fmt.Sprintf("gone-%d", i))
		}
		s.silent(long, "a-2")
		p := Judge(s.World)
		check(t, "replaced", replaced(p), "a-2")
		check(t, "entries", len(record(p, g)), v1alpha1.MaxHealthReplacements)
		check(t, "first", record(Judge(s.World), g)[0].Name, "gone-1")
	})
	t.Run("keeps the record of a replacement during a rollout with surge until the successor is Ready (MCM-47)", func(t *testing.T) {
		s := newScene()
		g := s.group("a", 20)
		g.Size = 10
		for i := 10; i < 20; i++ {
			s.machine(fmt.Sprintf("a-%d", i)).Outdated = true
		}
		s.silent(long, "a-0", "a-1")
		s.began(g, time.Minute, "a-0")
		s.remove("a-0")
		p := Judge(s.World)
		check(t, "replaced", replaced(p), "")
		check(t, "record", recordOf(p, g), "a-0")
	})
	t.Run("sets the start time of a recorded replacement to now when the recorded time is in the future (MCM-49)", func(t *testing.T) {
		s := newScene()
		g := s.group("a", 10)
		g.Size = 11
		s.began(g, -24*time.Hour, "gone")
		s.silent(long, "a-1")
		p := Judge(s.World)
		check(t, "replaced", replaced(p), "")
		g.Replacements = p.Groups[0].Replacements
		check(t, "began", g.Replacements[0].Started.Time, noon)
		s.Now = noon.Add(12 * time.Minute)
		check(t, "replaced after the join timeout and two minutes", replaced(Judge(s.World)), "a-1")
	})
	t.Run("keeps all recorded replacements when the list of Machines is empty", func(t *testing.T) {
		s := newScene()
		g := s.group("a", 5)
		s.began(g, time.Minute, "a-1", "a-2")
		s.Machines = nil
		p := Judge(s.World)
		check(t, "record", recordOf(p, g), "a-1 a-2")
		check(t, "replaced", replaced(p), "")
	})
	t.Run("starts no more replacements of a group at once than the group's status can record", func(t *testing.T) {
		s := newScene()
		g := s.group("a", 1000)
		s.Settings.MaxReplacing = intstr.FromString("100%")
		for i := range 300 {
			s.silent(long, fmt.Sprintf("a-%d", i))
		}
		p := Judge(s.World)
		check(t, "replaced", len(p.Groups[0].Replace), v1alpha1.MaxHealthReplacements)
		check(t, "verdicts", len(p.Verdicts), 300)
		check(t, "held", heldOf(p, g), "")
	})
}

// A Machine that was created after a replacement in its group and is unhealthy nevertheless shows that replacing does not help.
func TestReplacementsThatDoNotHelpBecomeRarer(t *testing.T) {
	// scene returns a group in which a replacement of the given attempt began almost an hour before noon. Its successor a-1 was created a
	// minute later, and has been unhealthy for half an hour.
	scene := func(attempt int32) *scene {
		s := newScene()
		g := s.group("a", 5)
		s.began(g, time.Hour-time.Second, "gone")
		g.Replacements[0].Attempt = attempt
		s.silent(30*time.Minute, "a-1")
		s.machine("a-1").CreationTimestamp = metav1.NewTime(noon.Add(-59 * time.Minute))
		return s
	}
	for _, tt := range []struct {
		name   string
		before int32
		// due is when the successor may be replaced, after noon.
		due time.Duration
		// attempt is what is recorded then.
		attempt int32
	}{
		{"the second attempt may follow 20 minutes after the first, and waits for the health timeout only", 0, -20 * time.Minute, 2},
		{"the third attempt follows 40 minutes after the second", 2, -20*time.Minute + time.Second, 3},
		{"the fourth attempt follows 80 minutes after the third", 3, 20*time.Minute + time.Second, 4},
		{"later attempts follow two hours after the one before", 20, time.Hour + time.Second, 21},
	} {
		t.Run(tt.name+" (F-142)", func(t *testing.T) {
			s := scene(tt.before)
			due := verdictOf(Judge(s.World), "a-1").Due
			check(t, "due", due, noon.Add(tt.due))
			s.Now = due
			p := Judge(s.World)
			check(t, "replaced", replaced(p), "a-1")
			entries := record(p, s.Groups[0])
			check(t, "recorded attempt", entries[len(entries)-1].Attempt, tt.attempt)
		})
	}
	t.Run("one node that is bad again after each replacement costs at most 16 servers in a day, and no other Machine is replaced (report 100)", func(t *testing.T) {
		s := newScene()
		g := s.group("a", 5)
		bad, replacements := "a-1", 0
		for minute := range 24 * 60 {
			s.Now = noon.Add(time.Duration(minute) * time.Minute)
			m := s.machine(bad)
			if m.CreationTimestamp.Time.Before(s.Now.Add(-time.Minute)) && v1alpha1.NodeReady(m.Node).Status == corev1.ConditionTrue {
				setNode(m, corev1.NodeReady, corev1.ConditionFalse, noon.Sub(s.Now))
			}
			p := Judge(s.World)
			s.Seen = p.Seen
			if len(p.Groups[0].Replace) == 0 {
				continue
			}
			check(t, "replaced", replaced(p), bad)
			for _, v := range p.Groups[0].Replace {
				p.Groups[0].Record(v, s.Now)
			}
			g.Replacements = p.Groups[0].Replacements
			// Its successor is Ready for a minute, and then as bad.
			replacements++
			bad = fmt.Sprintf("a-1-%d", replacements)
			next := newMachine(bad)
			next.Group, next.CreationTimestamp = g, metav1.NewTime(s.Now)
			*m = next
		}
		if replacements < 10 || replacements > 16 {
			t.Errorf("%d replacements in a day", replacements)
		}
	})
	t.Run("the condition of a Machine that waits longer says so, and what to do (F-142)", func(t *testing.T) {
		s := scene(3)
		c := verdictOf(Judge(s.World), "a-1").Condition
		if c == nil || !strings.Contains(c.Message, "it is replaced at 2026-11-22T12:20:01Z unless it recovers. This is attempt 4 in this group") || !strings.Contains(c.Message, v1alpha1.AnnotationReplace) {
			t.Errorf("got %+v", c)
		}
	})
	t.Run("a Machine that was created before the replacement does not wait (F-142)", func(t *testing.T) {
		s := scene(20)
		s.silent(long, "a-2")
		s.machine("a-2").CreationTimestamp = metav1.NewTime(noon.Add(-2 * time.Hour))
		check(t, "replaced", replaced(Judge(s.World)), "a-2")
	})
	t.Run("a Machine whose replacement a person requests does not wait (F-142)", func(t *testing.T) {
		s := scene(20)
		s.machine("a-1").Annotations[v1alpha1.AnnotationReplace] = "true"
		check(t, "replaced", replaced(Judge(s.World)), "a-1")
	})
	t.Run("a group of five whose pods fill the disk of each node loses at most 30 servers a day (F-142)", func(t *testing.T) {
		s := newScene()
		g := s.group("a", 5)
		s.Settings.Conditions = append(s.Settings.Conditions, corev1.NodeDiskPressure)
		count := 0
		for s.Now = noon; s.Now.Before(noon.Add(24 * time.Hour)); s.Now = s.Now.Add(time.Minute) {
			for i := range s.Machines {
				// The pods of two nodes are full of data ten minutes after their start; the brake for shares allows two of five.
				if m := &s.Machines[i]; i < 2 && len(m.Node.Status.Conditions) == 1 && s.Now.Sub(m.CreationTimestamp.Time) >= 10*time.Minute {
					m.Node.Status.Conditions = append(m.Node.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(s.Now)})
				}
			}
			p := Judge(s.World)
			s.Seen = p.Seen
			for _, gp := range p.Groups {
				for _, v := range gp.Replace {
					gp.Record(v, s.Now)
					count++
					i := slices.IndexFunc(s.Machines, func(m Machine) bool { return m.Name == v.Machine.Name })
					s.Machines[i] = newMachine(fmt.Sprintf("a-new-%d", count))
					s.Machines[i].Group, s.Machines[i].CreationTimestamp = g, metav1.NewTime(s.Now.Add(time.Second))
				}
				g.Replacements = gp.Replacements
			}
		}
		t.Logf("%d replacements in a day", count)
		if count == 0 || count > 30 {
			t.Errorf("%d replacements in a day", count)
		}
	})
}
