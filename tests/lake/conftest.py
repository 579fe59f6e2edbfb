"""Makes `lake_records` importable from the lake's tests; an S3 server on loopback for those that want one."""

import logging
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def store(monkeypatch, tmp_path):
    """An empty bucket, its options, and a client; the spool in a temporary folder."""
    server_module = pytest.importorskip("moto.server", reason="pip install 'moto[server]'")
    boto3 = pytest.importorskip("boto3")
    pytest.importorskip("obstore", reason="pip install 'silva[s3]'")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    server = server_module.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server.start()
    host, port = server.get_host_and_port()
    options = {
        "aws_access_key_id": "key",
        "aws_secret_access_key": "secret",
        "aws_region": "us-east-1",
        "aws_endpoint": f"http://{host}:{port}",
        "aws_virtual_hosted_style_request": "false",
        "allow_http": "true",
    }
    client = boto3.client(
        "s3",
        endpoint_url=options["aws_endpoint"],
        region_name="us-east-1",
        aws_access_key_id="key",
        aws_secret_access_key="secret",
    )
    client.create_bucket(Bucket="forest")
    yield f"s3://forest/{tmp_path.name}/lake", options, client
    server.stop()
