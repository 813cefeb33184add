package check

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// kinds are the types that the manifests may use.
var kinds = map[string]func() any{
	"v1/Namespace":                       func() any { return &corev1.Namespace{} },
	"v1/Service":                         func() any { return &corev1.Service{} },
	"v1/ConfigMap":                       func() any { return &corev1.ConfigMap{} },
	"v1/PersistentVolumeClaim":           func() any { return &corev1.PersistentVolumeClaim{} },
	"apps/v1/StatefulSet":                func() any { return &appsv1.StatefulSet{} },
	"apps/v1/Deployment":                 func() any { return &appsv1.Deployment{} },
	"batch/v1/Job":                       func() any { return &batchv1.Job{} },
	"policy/v1/PodDisruptionBudget":      func() any { return &policyv1.PodDisruptionBudget{} },
	"networking.k8s.io/v1/NetworkPolicy": func() any { return &networkingv1.NetworkPolicy{} },
}

// manifests decodes every document of a folder strictly.
func manifests(t *testing.T, pattern string) map[string]any {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no manifests match %s (%v)", pattern, err)
	}
	found := map[string]any{}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		decode(t, path, text, found)
	}
	return found
}

func decode(t *testing.T, path string, text []byte, into map[string]any) {
	t.Helper()
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		object, name, err := one(document)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if _, twice := into[name]; twice {
			t.Errorf("%s: %s is there twice", path, name)
		}
		into[name] = object
	}
}

// one decodes a document into its kind's type and gives its kind and name.
func one(document []byte) (object any, name string, err error) {
	var head struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
	}
	if err := yaml.Unmarshal(document, &head); err != nil {
		return nil, "", err
	}
	make, ok := kinds[head.APIVersion+"/"+head.Kind]
	if !ok {
		return nil, "", errors.New("unknown kind " + head.APIVersion + "/" + head.Kind)
	}
	object = make()
	return object, head.Kind + "/" + head.Name, yaml.UnmarshalStrict(document, object)
}

func TestManifests_OwnTypes(t *testing.T) {
	found := manifests(t, "../kubernetes/[0-9]*.yaml")
	nats, ok := found["StatefulSet/nats"].(*appsv1.StatefulSet)
	if !ok || *nats.Spec.Replicas != 3 {
		t.Fatal("NATS is not a set of three servers")
	}
	if _, ok := found["Service/"+nats.Spec.ServiceName].(*corev1.Service); !ok {
		t.Errorf("no service %s for the NATS servers", nats.Spec.ServiceName)
	}
	hosts, ok := found["Deployment/hosts"].(*appsv1.Deployment)
	if !ok || *hosts.Spec.Replicas < 2 {
		t.Fatal("hosts are not scaled by replicas")
	}
	job, ok := found["Job/demo"].(*batchv1.Job)
	if !ok {
		t.Fatal("no job for the coordinator")
	}
	for name, pod := range map[string]*corev1.PodSpec{"nats": &nats.Spec.Template.Spec, "hosts": &hosts.Spec.Template.Spec, "coordinator": &job.Spec.Template.Spec} {
		checkPod(t, name, pod)
	}
	for name, set := range map[string]struct{ want, have map[string]string }{
		"nats":  {nats.Spec.Selector.MatchLabels, nats.Spec.Template.Labels},
		"hosts": {hosts.Spec.Selector.MatchLabels, hosts.Spec.Template.Labels},
	} {
		for k, v := range set.want {
			if set.have[k] != v {
				t.Errorf("%s selects %s=%s, its pods have %q", name, k, v, set.have[k])
			}
		}
	}
}

// Nothing is reached but what a policy names, and the policies name pods that there are.
func TestManifests_NothingReachedUnnamed(t *testing.T) {
	found := manifests(t, "../kubernetes/[0-9]*.yaml")
	closed, ok := found["NetworkPolicy/nothing"].(*networkingv1.NetworkPolicy)
	if !ok || len(closed.Spec.PodSelector.MatchLabels)+len(closed.Spec.PodSelector.MatchExpressions) > 0 || len(closed.Spec.PolicyTypes) != 2 ||
		len(closed.Spec.Ingress)+len(closed.Spec.Egress) > 0 {
		t.Error("the namespace is not closed")
	}
	apps := map[string]bool{}
	for _, object := range found {
		switch o := object.(type) {
		case *appsv1.StatefulSet:
			apps[o.Spec.Template.Labels["app"]] = true
		case *appsv1.Deployment:
			apps[o.Spec.Template.Labels["app"]] = true
		case *batchv1.Job:
			apps[o.Spec.Template.Labels["app"]] = true
		}
	}
	check := func(policy string, s *metav1.LabelSelector) {
		if s == nil {
			return
		}
		names := slices.Collect(maps.Values(s.MatchLabels))
		for _, x := range s.MatchExpressions {
			names = append(names, x.Values...)
		}
		for _, name := range names {
			if !apps[name] {
				t.Errorf("%s names pods %q, which are none", policy, name)
			}
		}
	}
	for name, object := range found {
		p, ok := object.(*networkingv1.NetworkPolicy)
		if !ok {
			continue
		}
		check(name, &p.Spec.PodSelector)
		for _, in := range p.Spec.Ingress {
			if len(in.From) == 0 || len(in.Ports) == 0 {
				t.Errorf("%s lets everybody in", name)
			}
			for _, peer := range in.From {
				check(name, peer.PodSelector)
			}
		}
		for _, out := range p.Spec.Egress {
			if len(out.To) == 0 || len(out.Ports) == 0 {
				t.Errorf("%s lets everything out", name)
			}
			for _, peer := range out.To {
				check(name, peer.PodSelector)
			}
		}
	}
}

// checkPod holds a pod to what the namespace demands, and to itself.
func checkPod(t *testing.T, name string, pod *corev1.PodSpec) {
	t.Helper()
	if s := pod.SecurityContext; s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.SeccompProfile == nil {
		t.Errorf("%s may run as root", name)
	}
	if mount := pod.AutomountServiceAccountToken; mount == nil || *mount {
		t.Errorf("%s gets a token of the cluster", name)
	}
	volumes := map[string]bool{}
	for _, v := range pod.Volumes {
		volumes[v.Name] = true
	}
	for _, c := range pod.Containers {
		if s := c.SecurityContext; s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem {
			t.Errorf("%s: container %s may write to its root", name, c.Name)
		}
		if s := c.SecurityContext; s == nil || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || s.Capabilities == nil || len(s.Capabilities.Drop) == 0 {
			t.Errorf("%s: container %s may gain privileges", name, c.Name)
		}
		if limit := c.Resources.Limits[corev1.ResourceMemory]; limit.Cmp(resource.MustParse("1Gi")) < 0 {
			t.Errorf("%s: container %s has no limit of memory", name, c.Name)
		}
		for _, m := range c.VolumeMounts {
			if !volumes[m.Name] {
				t.Errorf("%s: container %s mounts %s, which is no volume", name, c.Name, m.Name)
			}
		}
		checkImage(t, name, c.Image)
	}
}

// The check can fail: a mistyped key is found.
func TestManifests_MistypedKey(t *testing.T) {
	text, err := os.ReadFile("../kubernetes/4-hosts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	wrong := bytes.Replace(text, []byte("replicas:"), []byte("replica:"), 1)
	if _, _, err := one(wrong); err == nil || !strings.Contains(err.Error(), "replica") {
		t.Errorf("a mistyped key gives %v", err)
	}
}
