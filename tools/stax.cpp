// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <malloc.h>

#include <cstdio>

#include "commands.h"
#include "stax/stax.h"
#include "support/build_id.h"
#include "support/error.h"
#include "support/nearest.h"

namespace {

constexpr const char* kAbout =
    "Stax compiles tensor models of dynamic shape once and runs them at every shape.\n"
    "  stax run model.onnx --inputs a.npz --outputs out      run a model on the arrays of a.npz\n"
    "  stax compile model.onnx -o model.stax                 compile it into a file that needs no compiler\n"
    "  stax bench model.onnx --sweep seq=1..512:log          where the time goes, kernel by kernel\n"
    "  stax report model.onnx -o m.html --sweep seq=1..512   the same, and more, as a page\n"
    "  stax verify model.onnx                                do all levels of the compiler agree?\n"
    "  stax bisect model.onnx --inputs a.npz                 which pass, kernel and version is wrong?\n"
    "  stax COMMAND --help                                   what a command takes, with examples";

/// What CLI11 says of an option that there is not, with the one that may have been meant.
std::string unknown_option(const CLI::App& app, const std::string& command, int argc, char** argv) {
  std::vector<std::string> known;
  const CLI::App* chosen = nullptr;
  for (const CLI::App* c : app.get_subcommands([](const CLI::App* c) { return c != nullptr; }))
    if (c->get_name() == command) chosen = c;
  if (!chosen) return {};
  for (const CLI::Option* o : chosen->get_options())
    for (const std::string& name : o->get_lnames()) known.push_back("--" + name);
  for (int k = 2; k < argc; ++k) {
    std::string word = argv[k];
    word = word.substr(0, word.find('='));
    if (!word.starts_with("--") || std::find(known.begin(), known.end(), word) != known.end()) continue;
    const std::string near = stax::nearest(word, known);
    return "there is no option '" + word + "'" + (near.empty() ? "" : ", did you mean '" + near + "'?");
  }
  return {};
}

/// The name of an option or argument that is given as '': a variable of a script that was not set, which means nothing else.
std::string empty_value(const CLI::App& command) {
  for (const CLI::Option* o : command.get_options())
    for (const std::string& value : o->results())
      if (value.empty()) return o->get_name();
  return {};
}

int usage_fault(const std::string& message) {
  std::fprintf(stderr, "stax: %s\n", message.c_str());
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace stax;
  // Large blocks stay with the process between calls instead of going back and forth to the system page by page.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
  CLI::App app(kAbout, "stax");
  app.require_subcommand(0, 1);
  app.set_version_flag("--version", fmt::format("stax {}.{}.{}, build {}", STAX_VERSION_MAJOR, STAX_VERSION_MINOR,
                                                STAX_VERSION_PATCH, build_id()));
  std::map<CLI::App*, tool::Action> actions;
  tool::add_run(app, actions);
  tool::add_bench(app, actions);
  tool::add_compile(app, actions);
  tool::add_dump(app, actions);
  tool::add_report(app, actions);
  tool::add_doctor(app, actions);
  tool::add_verify(app, actions);
  tool::add_bisect(app, actions);
  tool::add_replay(app, actions);
  tool::add_completion(app, actions);
  std::vector<std::string> commands;
  for (const CLI::App* c : app.get_subcommands([](CLI::App*) { return true; })) commands.push_back(c->get_name());
  if (argc < 2) {
    std::fputs(app.help().c_str(), stdout);
    return 2;
  }
  std::string first = argv[1];
  if (first[0] != '-' && std::find(commands.begin(), commands.end(), first) == commands.end()) {
    std::string near = nearest(first, commands);
    std::string list;
    for (const std::string& c : commands) list += (list.empty() ? "" : ", ") + c;
    return usage_fault("unknown command '" + first + "'" + (near.empty() ? "" : ", did you mean '" + near + "'?") +
                       "; commands are " + list);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& e) {
    return app.exit(e);
  } catch (const CLI::CallForAllHelp& e) {
    return app.exit(e);
  } catch (const CLI::CallForVersion& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    const std::string unknown = unknown_option(app, first, argc, argv);
    return usage_fault((unknown.empty() ? e.what() : unknown) + "; see stax " + first + " --help");
  }
  try {
    for (CLI::App* chosen : app.get_subcommands()) {
      const std::string empty = empty_value(*chosen);
      if (!empty.empty()) return usage_fault(empty + " is empty; give a value or leave it out");
      return actions.at(chosen)();
    }
    std::fputs(app.help().c_str(), stdout);
    return 2;
  } catch (const UserError& e) {
    std::fprintf(stderr, "stax: %s\n", e.what());
    return 1;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "stax: out of memory; use smaller inputs or free memory\n");
    return 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "stax: a fault of Stax's: %s\n", e.what());
    return 70;
  }
}
