FROM node:latest
RUN sudo apt-get install curl
