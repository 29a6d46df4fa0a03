package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/ownership"
)

// cacheOptions returns the options of the informer caches, for either cluster.
func cacheOptions() cache.Options {
	return cache.Options{DefaultTransform: slim, NewInformer: newInformer, DefaultWatchErrorHandler: reportRefused}
}

// streamSilence is how long a streaming list may deliver nothing before a plain list is made instead.
const streamSilence = 30 * time.Second

// newInformer returns an informer that lists instead when a streaming list does not end. client-go waits without a limit for the bookmark that
// ends a streaming list, which a proxy before the API server may drop or keep back.
func newInformer(lw toolscache.ListerWatcher, of runtime.Object, resync time.Duration, by toolscache.Indexers) toolscache.SharedIndexInformer {
	inner := toolscache.ToListerWatcherWithContext(lw)
	return toolscache.NewSharedIndexInformer(&toolscache.ListWatch{
		ListWithContextFunc: inner.ListWithContext,
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			if !ptr.Deref(o.SendInitialEvents, false) {
				return inner.WatchWithContext(ctx, o)
			}
			return stream(ctx, fmt.Sprintf("%T", of), func(ctx context.Context) (watch.Interface, error) { return inner.WatchWithContext(ctx, o) })
		},
	}, of, resync, by)
}

// stream begins a streaming list, and passes its events on. When nothing has come for streamSilence and the list has not ended, the watch
// ends with an error, upon which client-go lists.
func stream(ctx context.Context, kind string, begin func(context.Context) (watch.Interface, error)) (watch.Interface, error) {
	ctx, cancel := context.WithCancel(ctx)
	answer := time.AfterFunc(streamSilence, func() {
		reportSilent(ctx, kind)
		cancel()
	})
	in, err := begin(ctx)
	answer.Stop()
	if err != nil {
		cancel()
		return nil, err
	}
	events := make(chan watch.Event)
	out := watch.NewProxyWatcher(events)
	go func() {
		defer cancel()
		defer close(events)
		defer in.Stop()
		pass(ctx, kind, in, out, events)
	}()
	return out, nil
}

// pass passes the events of in to events until one of the watches ends, or the list has been silent for too long.
func pass(ctx context.Context, kind string, in watch.Interface, out *watch.ProxyWatcher, events chan<- watch.Event) {
	silence := time.NewTimer(streamSilence)
	defer silence.Stop()
	late := silence.C
	for {
		var event watch.Event
		open := true
		select {
		case <-out.StopChan():
			return
		case <-late:
			reportSilent(ctx, kind)
			event, late = watch.Event{Type: watch.Error, Object: &metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonTimeout, Message: "the streaming list has not ended"}}, nil
		case event, open = <-in.ResultChan():
			silence.Reset(streamSilence)
			if endsList(event) {
				late = nil
			}
		}
		if !open {
			return
		}
		select {
		case <-out.StopChan():
			return
		case events <- event:
		}
	}
}

// reportSilent logs that a streaming list is given up, and the remedy.
func reportSilent(ctx context.Context, kind string) {
	ctrl.LoggerFrom(ctx).Info("A streaming list has not ended: something between drover and the API server, such as a proxy, drops watch bookmarks or keeps them back. drover lists instead. Set KUBE_FEATURE_WatchListClient=false in drover's environment to avoid the wait",
		"kind", kind, "waited", streamSilence.String())
}

// endsList reports whether an event is the bookmark that ends a streaming list.
func endsList(e watch.Event) bool {
	if e.Type != watch.Bookmark {
		return false
	}
	o, err := meta.Accessor(e.Object)
	return err == nil && o.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"
}

// reportRefused logs why a list or watch failed. For a missing right it adds what grants it.
func reportRefused(ctx context.Context, r *toolscache.Reflector, err error) {
	if !apierrors.IsForbidden(err) {
		toolscache.DefaultWatchErrorHandler(ctx, r, err)
		return
	}
	ctrl.Log.Error(err, "Lacking a right: drover may not read a kind that it needs. A replica that starts without the right neither serves the autoscaler nor leads. Apply the roles of this version: the ClusterRole drover, in the chart drover and in deploy/rbac")
}

// slim removes from an object what drover neither reads nor writes back; drover writes single fields and never a whole object. From
// every kind it removes the managed fields, and the copy of the object that kubectl apply has left in an annotation. Of sets and deployments
// it keeps who wrote the size and the template. From a Node it removes the list of images, which is most of its size.
//
// It shortens provider specs that are too large: those of templates, because drover makes no Machines of such a template, and those
// of Machines for which no server can exist, because drover makes none with such a spec. It needs the spec of any other Machine,
// also of one that an earlier version has made, to delete the server.
func slim(in any) (any, error) {
	var writers []metav1.ManagedFieldsEntry
	switch o := in.(type) {
	case *corev1.Node:
		o.Status.Images = nil
	case *v1alpha1.Machine:
		if o.Spec.ProviderID == nil && o.Status.ProviderStatus == nil {
			v1alpha1.ShortenDocument(o.Spec.Document())
		}
	case *v1alpha1.MachineSet:
		writers = ownership.Writers(o.ManagedFields)
		v1alpha1.ShortenDocument(o.Spec.Template.Spec.Document())
	case *v1alpha1.MachineDeployment:
		writers = ownership.Writers(o.ManagedFields)
		v1alpha1.ShortenDocument(o.Spec.Template.Spec.Document())
	}
	if o, err := meta.Accessor(in); err == nil {
		o.SetManagedFields(writers)
		delete(o.GetAnnotations(), corev1.LastAppliedConfigAnnotation)
	}
	return in, nil
}
