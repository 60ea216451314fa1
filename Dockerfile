# Fairgate in a container: docker build -t fairgate .
# BASE needs Python 3.11 or newer at the same path in both stages; the second stage runs no shell.
ARG BASE=python:3.13-slim

FROM ${BASE} AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY proxy ./proxy
RUN python -m venv /opt/fairgate \
 && /opt/fairgate/bin/pip install --no-cache-dir --disable-pip-version-check . \
 && /opt/fairgate/bin/python -m compileall -q /opt/fairgate/lib \
 && mkdir /etc/fairgate \
 # In a container of its own Fairgate must be reachable from outside; the admin listener stays on loopback.
 && printf '%s\n' \
      'listen:' \
      '  - address: 0.0.0.0:8010' \
      'metrics:' \
      '  listen: 0.0.0.0:9403' \
      > /etc/fairgate/config.yaml \
 && /opt/fairgate/bin/fairgate check /etc/fairgate/config.yaml

FROM ${BASE}
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="fairgate" \
      org.opencontainers.image.description="A reverse-proxy sidecar that keeps a Matrix homeserver fair" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /opt/fairgate /opt/fairgate
COPY --from=build /etc/fairgate /etc/fairgate
ENV PATH=/opt/fairgate/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 10001:10001
# Clients, and probes with metrics. 9402 is the admin listener, on loopback.
EXPOSE 8010 9403
STOPSIGNAL SIGTERM
# For the default metrics.listen; orchestrators ask /healthz and /readyz themselves.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9403/healthz', timeout=2)"]
ENTRYPOINT ["fairgate"]
CMD ["run", "--config", "/etc/fairgate/config.yaml"]
