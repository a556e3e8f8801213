# Build: the same tools and commands as the Makefile's, hashes included.
FROM python:3.12-slim AS build
WORKDIR /build
ENV UV_LINK_MODE=copy
# The locks come before the source, so that a change of code does not install everything again.
COPY requirements/build.lock requirements/run.lock requirements/
RUN pip install --no-cache-dir --require-hashes -r requirements/build.lock \
    && uv venv --python /usr/local/bin/python /opt/rota \
    && uv pip install --no-cache --python /opt/rota --compile-bytecode --require-hashes -r requirements/run.lock
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN uv pip install --no-cache --python /opt/rota --compile-bytecode --no-deps --build-constraints requirements/build.lock .

FROM python:3.12-slim
RUN useradd --system --uid 10001 --user-group --home-dir /data rota \
    && install --directory --owner=rota --group=rota --mode=0700 /data
COPY --from=build /opt/rota /opt/rota
ENV PATH=/opt/rota/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    DATABASE_URL=/data/rota.db \
    ROTA_HOST=0.0.0.0 \
    PORT=8080
# By number, so that Kubernetes' runAsNonRoot can see that it is not root.
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8080
# The image has neither wget nor curl. An answer of 503 raises, and so is unhealthy.
HEALTHCHECK --interval=30s --timeout=10s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as u; u.urlopen('http://127.0.0.1:' + os.environ['PORT'] + '/health', timeout=5)"]
# `rota up` refuses to listen beyond loopback without a token. Create one first, in the same volume:
#   docker run --rm -v rota:/data IMAGE token create ops --scope admin
ENTRYPOINT ["rota"]
CMD ["up"]
