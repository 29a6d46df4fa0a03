package orphans

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/safety/orphans/verdict"
)

// The keys of the ConfigMap: the ends for the next leader (as JSON), and the report for operators.
const (
	endedKey  = "ended"
	reportKey = "report"
)

// mostStored is how many ends of Machines are stored for the next leader. They take about 250 KiB.
const mostStored = 1000

// board is the content of the ConfigMap drover-orphans.
type board struct {
	object *corev1.ConfigMap
	ends   verdict.Ends
	// words are what a person confirms. read reports whether a round has read them, so that they are removed.
	words []string
	read  bool
}

func (c *Collector) configMap() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: name}}
}

// read reads the ConfigMap, and adds its ends to those that are known. The content is empty when there is no ConfigMap.
func (c *Collector) read(ctx context.Context) (*board, error) {
	c.ends.unstored.Store(false)
	b := &board{object: c.configMap(), ends: verdict.Ends{}}
	if err := c.Control.GetAPIReader().Get(ctx, client.ObjectKeyFromObject(b.object), b.object); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading ConfigMap %s/%s: %w", c.Namespace, name, err)
	}
	b.words = strings.Fields(strings.ReplaceAll(b.object.Annotations[v1alpha1.AnnotationCollect], ",", " "))
	if text := b.object.Data[endedKey]; text != "" {
		if err := json.Unmarshal([]byte(text), &b.ends); err != nil {
			return nil, fmt.Errorf("reading key %s of ConfigMap %s/%s: %w; delete the key: the orphans of the Machines that it names are then only reported until a person confirms them", endedKey, c.Namespace, name, err)
		}
	}
	now := c.Clock.Now().UTC()
	for uid, end := range b.ends {
		if end.Time.After(now) {
			// The clock of a former leader was ahead.
			end.Time = now
		}
		b.ends[uid] = end
	}
	c.ends.add(b.ends)
	return b, nil
}

// write writes the report, and the ends of the Machines that have or had something left, when that changes the ConfigMap. It also removes a
// confirmation that was read. The API server refuses the write when the ConfigMap has changed since it was read, so that no confirmation is
// removed that drover has not read.
func (c *Collector) write(ctx context.Context, b *board, left map[types.UID]bool, report string) error {
	now := b.object.DeepCopy()
	now.Data = map[string]string{}
	kept := c.ends.known()
	maps.DeleteFunc(kept, func(uid types.UID, end verdict.End) bool {
		_, stored := b.ends[uid]
		return !left[uid] && !stored && !end.Confirmed
	})
	text, err := json.Marshal(newest(kept, left, mostStored))
	if len(kept) > 0 {
		now.Data[endedKey] = string(text)
	}
	if report != "" {
		now.Data[reportKey] = report
	}
	if b.read {
		delete(now.Annotations, v1alpha1.AnnotationCollect)
	}
	switch {
	case err != nil:
	case now.ResourceVersion == "":
		err = c.Control.GetClient().Create(ctx, now, client.FieldOwner(name))
	case b.read || !maps.Equal(now.Data, b.object.Data):
		err = c.Control.GetClient().Patch(ctx, now, client.MergeFromWithOptions(b.object, client.MergeFromWithOptimisticLock{}), client.FieldOwner(name))
	}
	if err != nil {
		return fmt.Errorf("writing ConfigMap %s/%s: %w", c.Namespace, name, err)
	}
	return nil
}

// storeEnds stores the ends of Machines that were observed since the last time and have left something, so that the next leader has them.
func (c *Collector) storeEnds(ctx context.Context) {
	if !c.ends.unstored.Load() || !c.leads() {
		return
	}
	b, err := c.read(ctx)
	if err == nil {
		var nodes []verdict.Node
		if nodes, err = c.listNodes(ctx); err == nil {
			err = c.write(ctx, b, verdict.Left(c.Cloud.Tagged(ctx), nodes), b.object.Data[reportKey])
		}
	}
	if err != nil && ctx.Err() == nil {
		ctrl.LoggerFrom(ctx).Error(err, "Storing the ends of Machines failed; drover tries again")
		c.ends.unstored.Store(true)
	}
}
