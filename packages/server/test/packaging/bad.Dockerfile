FROM node:latest AS build
RUN sudo apt-get install curl
FROM build
COPY --from=build /a /a
COPY --from=0 /a /b
COPY --from=busybox:1.37 /bin/sh /bin/sh
FROM ${BASE}
