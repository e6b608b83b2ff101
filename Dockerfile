# One image for every role: docker run drom-net reducer|worker|peer|merge|.. (the arguments of the command line).
#
#     docker build -t drom-net .
#
# EXTRAS are those of pyproject.toml: "metrics" is small; add "data" for svmlight files and the public data sets
# (scikit-learn, SciPy), "tables" for CSV and Parquet: docker build --build-arg EXTRAS=metrics,data -t drom-net .

# What is installed has one version each, from the base image to NumPy: images built on different days compute the same bits.
ARG BASE=python:3.11.15-slim-trixie

FROM $BASE AS build
ARG EXTRAS=metrics
WORKDIR /src
COPY pyproject.toml setup.py README.md LICENSE constraints.txt ./
COPY drom_net ./drom_net
RUN pip wheel --quiet --no-cache-dir --constraint constraints.txt --wheel-dir /built ".[$EXTRAS]" \
 && python -m venv --without-pip /opt/drom-net \
 && pip --python /opt/drom-net/bin/python install --quiet --no-cache-dir --no-index --no-compile /built/*.whl \
 # Tests, stubs and what compiles extensions: nothing of it is needed at run time.
 && cd /opt/drom-net/lib/python3.11/site-packages \
 && find . -depth -type d \( -name tests -o -path ./numpy/f2py -o -path ./numpy/_core/include \) -exec rm -r {} + \
 && find . -type f \( -name '*.pyi' -o -name '*.a' \) -delete \
 # The file system is read-only at run time: the bytecode must be there.
 && python -m compileall -q .

FROM $BASE
LABEL org.opencontainers.image.title="drom-net" \
      org.opencontainers.image.description="Online multi-task learning across sites that keep their own data" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/drom-net /opt/drom-net
ENV PATH=/opt/drom-net/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /work
USER 1000:1000
ENTRYPOINT ["drom-net"]
CMD ["--help"]
