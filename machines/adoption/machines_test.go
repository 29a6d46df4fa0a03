package adoption

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/drover-project/drover/machines/api/v1alpha1"
	"github.com/drover-project/drover/machines/cloud"
	"github.com/drover-project/drover/machines/machine"
	"github.com/drover-project/drover/machines/machine/lifecycle"
)

func machineNamed(name string, change ...func(*v1alpha1.Machine)) *v1alpha1.Machine {
	m := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
	for _, c := range change {
		c(m)
	}
	return m
}

func deleting(m *v1alpha1.Machine) { m.DeletionTimestamp = ptr.To(metav1.Unix(1, 0)) }

func TestTheAdoptionReportPredictsWhatDroverDoesToAMachine(t *testing.T) {
	server := &cloud.Server{ID: "s"}
	for name, tt := range map[string]struct {
		machine  *v1alpha1.Machine
		forecast machine.Forecast
		want     Outcome
		says     string
	}{
		"drover keeps a Machine that has joined (CAPI-54)":                                                                      {machineNamed("a"), machine.Forecast{Step: lifecycle.Rest, Reason: lifecycle.ReasonJoined, Server: server}, Kept, ""},
		"drover creates the server of a Machine without one (CAPI-54)":                                                          {machineNamed("a"), machine.Forecast{Step: lifecycle.MakeUserData, Reason: lifecycle.ReasonCreating}, Made, "no server"},
		"drover waits for the Node of a Machine whose server exists (CAPI-54)":                                                  {machineNamed("a"), machine.Forecast{Step: lifecycle.AwaitNode, Reason: lifecycle.ReasonWaitingForNode, Server: server}, Waits, "no Node"},
		"drover replaces a Machine whose Node has not joined within the join timeout (MC-57)":                                   {machineNamed("a"), machine.Forecast{Step: lifecycle.GiveUp, Reason: lifecycle.ReasonJoinTimeout, Server: server}, Deleted, "join timeout"},
		"drover replaces a Machine whose server is gone (MC-66)":                                                                {machineNamed("a"), machine.Forecast{Step: lifecycle.LoseServer, Reason: lifecycle.ReasonServerGone}, Deleted, "gone"},
		"drover replaces a Machine whose server is in ERROR (MC-49)":                                                            {machineNamed("a"), machine.Forecast{Step: lifecycle.ReplaceServer, Reason: lifecycle.ReasonServerError, Detail: "No valid host", Server: server}, Deleted, "No valid host"},
		"drover continues the deletion of a Machine that is being deleted (CAPI-37)":                                            {machineNamed("a", deleting), machine.Forecast{Step: lifecycle.DrainNode, Reason: lifecycle.ReasonDraining}, Deleted, "already"},
		"drover leaves a paused Machine alone, even while it is being deleted (CAPI-54)":                                        {machineNamed("a", deleting), machine.Forecast{Step: lifecycle.Rest, Reason: lifecycle.ReasonPaused}, Left, "paused"},
		"drover does not touch a Machine whose server belongs to another Machine, and the report states that reason (F-1)":      {machineNamed("a"), machine.Forecast{Step: lifecycle.Wait, Reason: lifecycle.ReasonForeign, Detail: "server s belongs to x"}, Left, "server s belongs to x"},
		"drover leaves alone a Machine that belongs to another controller (MC-79)":                                              {machineNamed("a"), machine.Forecast{Step: lifecycle.Rest, Reason: lifecycle.ReasonOtherController}, Left, "another program"},
		"drover refuses a Machine whose spec is invalid (F-37)":                                                                 {machineNamed("a"), machine.Forecast{Step: lifecycle.Fail, Reason: "InvalidSpec", Detail: "flavr: unknown field"}, Refused, "flavr"},
		"a Machine is reported as left alone, with the name of its next step, when the report has no explanation for that step": {machineNamed("a"), machine.Forecast{Step: "Unheard", Reason: "Of"}, Left, "Unheard"},
	} {
		t.Run(name, func(t *testing.T) {
			if e := OfMachine(tt.machine, tt.forecast); e.Outcome != tt.want || !strings.Contains(e.Why, tt.says) {
				t.Errorf("OfMachine() = %+v, want outcome %s and a reason with %q", e, tt.want, tt.says)
			}
		})
	}
}

func TestTheAdoptionReportLeavesResourcesWithoutAMachineToTheOrphanCollector(t *testing.T) {
	t.Run("a port that was made for a Machine that does not exist is left alone, because the collector reports it first (F-105)", func(t *testing.T) {
		e, ok := OfResource(cloud.Resource{Kind: cloud.ResourcePort, ID: "p", Machine: "gone"}, false)
		if !ok || e.Outcome != Left || !strings.Contains(e.Why, "reports it") {
			t.Errorf("OfResource() = %+v, %t; want outcome %s", e, ok, Left)
		}
	})
	t.Run("a port of a Machine that exists has no entry of its own", func(t *testing.T) {
		if e, ok := OfResource(cloud.Resource{Kind: cloud.ResourcePort, ID: "p", Machine: "there"}, true); ok {
			t.Errorf("OfResource() = %+v, want no entry", e)
		}
	})
}
