# The image of a release, from the binaries that goreleaser has built. To build it from source: Dockerfile.
FROM gcr.io/distroless/static-debian13:nonroot
ARG TARGETPLATFORM
COPY $TARGETPLATFORM/chronos /usr/local/bin/chronos
USER 65532:65532
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s CMD ["/usr/local/bin/chronos", "health"]
ENTRYPOINT ["/usr/local/bin/chronos"]
CMD ["run"]
