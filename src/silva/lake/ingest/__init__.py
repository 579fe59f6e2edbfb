"""Foreign agents' traces, live into the lake.

    OTel's exporters, Langfuse's SDK, OpenAI Agents' exporter, `Client` ─▶ HTTP ─▶ app ─▶ intake ─▶ arrivals (durable)
                                                                                └▶ assembler ─▶ trajectories

One noun a file: `app` the wire · `body`, `otlp`, `others` what comes · `taken` arrivals of one request · `intake` what
makes them durable · `pending`, `assembler`, `worker`, `assembling` how sessions become trajectories · `stages` what is
done on the way · `client` the SDK · `agents` an exporter for OpenAI Agents.
"""

from silva.lake.ingest.client import Client, NotKeptError

__all__ = ["Client", "NotKeptError"]
