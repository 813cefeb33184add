package check

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// The folder is a kustomization of all its files, and the overlay of docs/machines.md changes what
// it says: the image and the number of hosts.
func TestKustomization(t *testing.T) {
	const overlay = `
resources: [../base]
images: [{name: fedpace, newName: images.example/fedpace, newTag: v1.2.3}]
replicas: [{name: hosts, count: 8}]
`
	files := filesys.MakeFsInMemory()
	onDisk := filesys.MakeFsOnDisk()
	names, err := onDisk.ReadDir("../kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := onDisk.ReadFile("../kubernetes/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if err := files.WriteFile("/base/"+name, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := files.WriteFile("/overlay/kustomization.yaml", []byte(overlay)); err != nil {
		t.Fatal(err)
	}
	build := func(folder string) map[string]any {
		t.Helper()
		built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, folder)
		if err != nil {
			t.Fatal(err)
		}
		text, err := built.AsYaml()
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]any{}
		decode(t, folder, text, found)
		return found
	}
	base, other := build("/base"), build("/overlay")
	if want := manifests(t, "../kubernetes/[0-9]*.yaml"); len(base) != len(want) || len(other) != len(want) {
		t.Errorf("the kustomization has %d objects, the overlay %d, the files have %d", len(base), len(other), len(want))
	}
	hosts, ok := other["Deployment/hosts"].(*appsv1.Deployment)
	if !ok || *hosts.Spec.Replicas != 8 || hosts.Spec.Template.Spec.Containers[0].Image != "images.example/fedpace:v1.2.3" {
		t.Errorf("the overlay's hosts are %+v", hosts)
	}
	job, ok := other["Job/demo"].(*batchv1.Job)
	if !ok || job.Spec.Template.Spec.Containers[0].Image != "images.example/fedpace:v1.2.3" {
		t.Errorf("the overlay's coordinator is %+v", job)
	}
}
