# Fairgate in a container: docker build --build-arg REVISION=$(git rev-parse HEAD) -t fairgate .
# Both bases need the same Python, 3.11 or newer, at the same path; the first with venv, pip, its headers and a C compiler, by
# which the hot path is compiled. Nothing runs a shell once it is built: a base without one will do for the second stage.
ARG BUILD_BASE=python:3.13
ARG BASE=python:3.13-slim

FROM ${BUILD_BASE} AS build
WORKDIR /src
# What is installed is in the two locks, by hash; how they are made stands at their top.
COPY packaging/build-requirements.lock packaging/requirements.lock ./packaging/
RUN python -m venv /opt/build \
 && /opt/build/bin/python -m pip install --no-cache-dir --disable-pip-version-check \
      --require-hashes --only-binary :all: -r packaging/build-requirements.lock \
 && python -m venv --without-pip /opt/fairgate \
 && /opt/build/bin/python -m pip --python /opt/fairgate/bin/python install --no-cache-dir --disable-pip-version-check \
      --no-compile --require-hashes --only-binary :all: -r packaging/requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY proxy ./proxy
COPY packaging/container.yaml /etc/fairgate/config.yaml
# The same sources give the same files: the compiler works in a folder of one name, bytecode names its source by hash, not by time.
ENV HATCH_BUILD_HOOK_ENABLE_MYPYC=true HATCH_MYPYC_BUILD_DIR=/tmp/mypyc
RUN mkdir /tmp/mypyc \
 && PYTHONHASHSEED=0 /opt/build/bin/python -m hatchling build -t wheel -d /tmp/wheel \
 && /opt/build/bin/python -m pip --python /opt/fairgate/bin/python install --no-cache-dir --disable-pip-version-check \
      --no-compile --no-index --no-deps /tmp/wheel/*.whl \
 && PYTHONHASHSEED=0 /opt/fairgate/bin/python -m compileall -q -f --invalidation-mode unchecked-hash /opt/fairgate/lib \
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
# 8010 clients, 9403 probes and metrics. 9402, the admin listener, is on loopback.
EXPOSE 8010 9403
STOPSIGNAL SIGTERM
# For the default metrics.listen; orchestrators ask /healthz and /servez themselves.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9403/healthz', timeout=2)"]
ENTRYPOINT ["fairgate"]
CMD ["run", "--config", "/etc/fairgate/config.yaml"]
