package verdict

import (
	"fmt"
	"testing"
	"time"

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
		check(t, "UID", p.Groups[0].Replacements[0].UID, s.machine("a-1").UID)
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
	t.Run("removes the record of a replacement once the successor is Ready (MCM-47)", func(t *testing.T) {
		s := newScene()
		g := s.group("a", 5)
		s.began(g, time.Minute, "gone")
		check(t, "record", recordOf(Judge(s.World), g), "")
	})
	t.Run("removes the record of the older of two replacements when one of the two successors is Ready (MCM-47)", func(t *testing.T) {
		s := newScene()
		g := s.group("a", 5)
		s.began(g, 5*time.Minute, "gone")
		s.began(g, time.Minute, "a-1")
		s.remove("a-1")
		check(t, "record", recordOf(Judge(s.World), g), "a-1")
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
		g := s.group("a", 1000, "x")
		s.Settings.MaxReplacing = intstr.FromString("100%")
		for i := range 300 {
			s.silent(long, fmt.Sprintf("a-%d", i))
		}
		p := Judge(s.World)
		check(t, "replaced", len(p.Replace), v1alpha1.MaxHealthReplacements)
		check(t, "verdicts", len(p.Verdicts), 300)
		check(t, "held", heldOf(p, g), "")
	})
}
