package deployment

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
)

// groupPrefix begins the id of a deployment's node group.
const groupPrefix = "MachineDeployment/"

// ServeHTTP shows the last plans as JSON: with ?group=MachineDeployment/<namespace>/<name> those of one deployment,
// oldest first, each with what it was made from; without, how many there are of each. Only the leader has any.
func (r *Reconciler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.Method != http.MethodGet && req.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "plans are only read: use GET", http.StatusMethodNotAllowed)
		return
	}
	group := req.URL.Query().Get("group")
	if group == "" {
		r.answer(w, req, r.plans.counts())
		return
	}
	namespace, name, ok := strings.Cut(strings.TrimPrefix(group, groupPrefix), "/")
	if !ok || !strings.HasPrefix(group, groupPrefix) || name == "" {
		http.Error(w, fmt.Sprintf("group %q is not of the form %s<namespace>/<name>", group, groupPrefix), http.StatusBadRequest)
		return
	}
	records, err := r.Plans(types.NamespacedName{Namespace: namespace, Name: name})
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	case len(records) == 0:
		http.Error(w, fmt.Sprintf("no plans of %s are kept here: it is at rest since this process began, or another one leads", group), http.StatusNotFound)
	default:
		r.answer(w, req, records)
	}
}

// count says how many plans of a group are kept.
type count struct {
	Group string `json:"group"`
	Plans int    `json:"plans"`
}

// counts are in the order of the groups' ids.
func (h *history) counts() []count {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]count, 0, len(h.plans))
	for deployment, plans := range h.plans {
		all = append(all, count{Group: groupPrefix + deployment.String(), Plans: len(plans)})
	}
	slices.SortFunc(all, func(a, b count) int { return strings.Compare(a.Group, b.Group) })
	return all
}

func (r *Reconciler) answer(w http.ResponseWriter, req *http.Request, value any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(value); err != nil {
		ctrl.LoggerFrom(req.Context()).V(1).Info("showing plans", "error", err.Error())
	}
}
