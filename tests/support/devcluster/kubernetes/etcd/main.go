// Command etcd is the etcd server at the version that the module graph of k8s.io/kubernetes selects.
//
// It exists as a package of this module because a main package of a dependency can only be built
// when something in the module imports that dependency.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	etcdmain.Main(os.Args)
}
