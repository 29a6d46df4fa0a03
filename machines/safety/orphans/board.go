package orphans

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/machines/safety/orphans/verdict"
)

// The keys of the ConfigMap: the memory for the next leader (as JSON), and the report for operators.
const (
	memoryKey = "memory"
	reportKey = "report"
)

// board is the ConfigMap with the findings. It is written only when the findings have changed.
type board struct {
	client    client.Client
	namespace string
	// memory and report are the values that the ConfigMap holds.
	memory, report string
}

// load reads what a previous leader stored; the zero value when nothing is stored.
func (b *board) load(ctx context.Context) (stored verdict.Stored, err error) {
	var object corev1.ConfigMap
	err = b.client.Get(ctx, client.ObjectKey{Namespace: b.namespace, Name: name}, &object)
	if err != nil {
		return stored, client.IgnoreNotFound(err)
	}
	b.memory, b.report = object.Data[memoryKey], object.Data[reportKey]
	if b.memory == "" {
		return stored, nil
	}
	if err := json.Unmarshal([]byte(b.memory), &stored); err != nil {
		return stored, fmt.Errorf("reading key %s of ConfigMap %s/%s: %w; delete the key; orphans are then only reported until an operator confirms that they may be deleted", memoryKey, b.namespace, name, err)
	}
	return stored, nil
}

// store writes the memory and the report when one of them has changed.
func (b *board) store(ctx context.Context, stored verdict.Stored, report string) error {
	text, err := json.Marshal(stored)
	if err != nil {
		return fmt.Errorf("encoding the record of orphans: %w", err)
	}
	memory := string(text)
	if memory == b.memory && report == b.report {
		return nil
	}
	data := map[string]string{memoryKey: memory, reportKey: report}
	body, err := json.Marshal(map[string]any{"data": data})
	if err != nil {
		return fmt.Errorf("encoding the record of orphans: %w", err)
	}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: name}}
	err = b.client.Patch(ctx, object, client.RawPatch(types.MergePatchType, body), client.FieldOwner(fieldOwner))
	if apierrors.IsNotFound(err) {
		object.Data = data
		err = b.client.Create(ctx, object, client.FieldOwner(fieldOwner))
	}
	if err != nil {
		return fmt.Errorf("writing ConfigMap %s/%s: %w", b.namespace, name, err)
	}
	b.memory, b.report = memory, report
	return nil
}
