// SPDX-License-Identifier: Apache-2.0
#include "worker.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <stdexcept>
#include <system_error>

namespace stax::bench {
namespace {

Array read_array(const nlohmann::json& described) {
  Array out{described.at("type"), described.at("shape"), {}};
  std::ifstream file(described.at("file").get<std::string>(), std::ios::binary | std::ios::ate);
  if (!file) throw std::runtime_error("cannot read " + described.at("file").get<std::string>());
  out.bytes.resize(static_cast<size_t>(file.tellg()));
  file.seekg(0);
  file.read(reinterpret_cast<char*>(out.bytes.data()), static_cast<std::streamsize>(out.bytes.size()));
  return out;
}

}  // namespace

Worker::Worker(const std::string& python, const std::string& script, int threads, const std::string& folder) {
  int requests[2], answers[2];
  if (pipe2(requests, O_CLOEXEC) != 0 || pipe2(answers, O_CLOEXEC) != 0)
    throw std::system_error(errno, std::generic_category(), "pipe");
  process_ = fork();
  if (process_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (process_ == 0) {
    dup2(requests[0], STDIN_FILENO);
    dup2(answers[1], STDOUT_FILENO);
    execlp(python.c_str(), python.c_str(), script.c_str(), std::to_string(threads).c_str(), folder.c_str(),
           static_cast<char*>(nullptr));
    _exit(127);
  }
  close(requests[0]);
  close(answers[1]);
  to_ = fdopen(requests[1], "w");
  from_ = fdopen(answers[0], "r");
}

Worker::~Worker() {
  std::fclose(to_);
  std::fclose(from_);
  waitpid(process_, nullptr, 0);
}

nlohmann::json Worker::ask(const nlohmann::json& request) {
  std::fputs((request.dump() + "\n").c_str(), to_);
  std::fflush(to_);
  std::string line;
  for (int c = std::fgetc(from_); c != EOF && c != '\n'; c = std::fgetc(from_)) line += static_cast<char>(c);
  if (line.empty())
    throw std::runtime_error("problems.py ended at " + request.dump() +
                             "; it needs numpy, onnx and onnxruntime (scripts/setup)");
  return nlohmann::json::parse(line);
}

Problem Worker::make(const std::string& kind, const std::map<std::string, int64_t>& parameters) {
  const nlohmann::json answer = ask({{"make", kind}, {"parameters", parameters}});
  Problem out;
  out.kind = kind;
  out.parameters = parameters;
  out.id = answer.at("id");
  out.model = answer.at("model");
  for (const auto& each : answer.at("inputs")) out.inputs.push_back(read_array(each));
  for (const auto& each : answer.at("constants")) out.constants.push_back(read_array(each));
  out.output = read_array(answer.at("output"));
  return out;
}

double Worker::seconds(const Problem& problem, int calls) {
  return ask({{"time", problem.id}, {"calls", calls}}).at("seconds");
}

}  // namespace stax::bench
