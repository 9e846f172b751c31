"""Lets Swift's S3 do what Amazon's does and Swift's refuses: a PUT that writes only what is not there yet.

Swift's own check is not atomic over its disks, so that PUTs to one path stand in line here. A client sends
`x-if-none-match: *`, because s3api answers 501 to the header itself.
"""
from collections import defaultdict

from eventlet.semaphore import Semaphore
from swift.common.swob import HTTPPreconditionFailed, wsgify
from swift.common.wsgi import make_subrequest


def filter_factory(global_conf, **local_conf):
    return ConditionalPut


class ConditionalPut:
    def __init__(self, app):
        self.app = app
        self.locks = defaultdict(Semaphore)

    @wsgify
    def __call__(self, request):
        if request.method != "PUT" or request.headers.get("x-if-none-match") != "*":
            return self.app
        with self.locks[request.path]:
            found = make_subrequest(request.environ, method="HEAD", path=request.path, swift_source="CP")
            if found.get_response(self.app).is_success:
                return HTTPPreconditionFailed(request=request)
            return request.get_response(self.app)
