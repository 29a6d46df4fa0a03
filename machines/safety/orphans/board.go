package orphans

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/safety/orphans/verdict"
)

// The keys of the ConfigMap: the ends for the next leader (as JSON), and the report for operators.
const (
	endedKey  = "ended"
	reportKey = "report"
)

// mostStored is how many ends of Machines are stored for the next leader. They take about 200 KiB.
const mostStored = 1000

// board is the content of the ConfigMap drover-orphans.
type board struct {
	object *corev1.ConfigMap
	ends   verdict.Ends
	// words are what a person confirms.
	words []string
}

// read reads the ConfigMap, and adds its ends to those that are known. The content is empty when there is no ConfigMap.
func (c *Collector) read(ctx context.Context) (*board, error) {
	b := &board{object: c.configMap(), ends: verdict.Ends{}}
	err := client.IgnoreNotFound(c.Control.GetAPIReader().Get(ctx, client.ObjectKeyFromObject(b.object), b.object))
	if err != nil {
		return nil, fmt.Errorf("reading ConfigMap %s/%s: %w", c.Namespace, name, err)
	}
	b.words = strings.Fields(strings.ReplaceAll(b.object.Annotations[v1alpha1.AnnotationCollect], ",", " "))
	var stored []verdict.End
	if text := b.object.Data[endedKey]; text != "" {
		err = json.Unmarshal([]byte(text), &stored)
	}
	if err != nil {
		return nil, fmt.Errorf("reading key %s of ConfigMap %s/%s: %w; delete the key: the orphans of the Machines that it names are then only reported until a person confirms them", endedKey, c.Namespace, name, err)
	}
	now := c.Clock.Now().UTC()
	for _, end := range stored {
		if end.Time.After(now) {
			// The clock of a former leader was ahead.
			end.Time = now
		}
		b.ends[end.UID] = end
	}
	c.ends.add(b.ends)
	return b, nil
}

// write writes the report, and the ends of the Machines that have or had something left, when that changes the ConfigMap. When read
// is true, it also removes the confirmation. The API server refuses the write when the ConfigMap has changed since it was read, so that no
// confirmation is removed that drover has not read.
func (c *Collector) write(ctx context.Context, b *board, left map[types.UID]bool, report string, read bool) error {
	now := b.object.DeepCopy()
	now.Data = map[string]string{}
	kept := c.ends.known()
	maps.DeleteFunc(kept, func(uid types.UID, end verdict.End) bool {
		_, stored := b.ends[uid]
		return !left[uid] && !stored && !end.Confirmed
	})
	if some := sorted(kept); len(some) > 0 {
		// The ends of Machines that have nothing left any more come last.
		slices.SortStableFunc(some, func(a, b verdict.End) int { return cmp.Compare(rank(left, a), rank(left, b)) })
		text, err := json.Marshal(some[:min(mostStored, len(some))])
		if err != nil {
			return fmt.Errorf("encoding the ends of Machines: %w", err)
		}
		now.Data[endedKey] = string(text)
	}
	if report != "" {
		now.Data[reportKey] = report
	}
	if read {
		delete(now.Annotations, v1alpha1.AnnotationCollect)
	}
	var err error
	switch {
	case b.object.ResourceVersion == "":
		err = c.Control.GetClient().Create(ctx, now, client.FieldOwner(fieldOwner))
	case !read && maps.Equal(now.Data, b.object.Data):
	default:
		err = c.Control.GetClient().Patch(ctx, now, client.MergeFromWithOptions(b.object, client.MergeFromWithOptimisticLock{}), client.FieldOwner(fieldOwner))
	}
	if err != nil {
		return fmt.Errorf("writing ConfigMap %s/%s: %w", c.Namespace, name, err)
	}
	return nil
}

// rank returns 0 for the end of a Machine that has something left, and 1 for others.
func rank(left map[types.UID]bool, end verdict.End) int {
	if left[end.UID] {
		return 0
	}
	return 1
}
