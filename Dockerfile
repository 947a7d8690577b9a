# An image of klazy with service, sources and sinks. docs/howto/deploy.md says what of this was tried.
FROM python:3.12-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN python -m venv /opt/klazy && /opt/klazy/bin/pip install --no-cache-dir ".[cli,polytope,postgres,serve]"

FROM python:3.12-slim
RUN useradd --uid 10001 --create-home klazy && install --directory --owner=klazy /state /cache
COPY --from=build /opt/klazy /opt/klazy
ENV PATH=/opt/klazy/bin:$PATH KLAZY_CACHE_DIR=/cache PYTHONUNBUFFERED=1
USER klazy
# Kernels are compiled for the kind of CPU that builds the image; on another kind they are compiled when they are needed.
RUN klazy warm
VOLUME /state
WORKDIR /state
EXPOSE 8321 9464
ENTRYPOINT ["klazy"]
CMD ["serve", "--store", "/state/decisions.db", "--host", "0.0.0.0"]
