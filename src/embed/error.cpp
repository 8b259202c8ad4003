// SPDX-License-Identifier: Apache-2.0
// stax::Error, and the translation of internal errors into it.
//
// Internal messages are one text, spelled alike: `where: problem; how`, or a sentence that begins with the place
// ("input 'x' has ..."). The parts are found here by these marks, outside of quotes and brackets. A text without a mark
// gets the part from the call that failed.
#include <algorithm>
#include <cctype>
#include <new>

#include "embed/boundary.h"
#include "support/error.h"

namespace stax {

struct Error::Parts {
  ErrorKind kind = ErrorKind::kUser;
  std::string problem, where, how, all;
};

Error::Error(ErrorKind kind, std::string problem, std::string where, std::string how) {
  // None is ever empty, whatever is known.
  if (problem.empty()) problem = "something went wrong";
  if (where.empty()) where = "Stax";
  if (how.empty()) how = "see the documentation of what was called";
  auto parts = std::make_shared<Parts>();
  parts->kind = kind;
  parts->all = where + ": " + (kind == ErrorKind::kUnsupported ? "unsupported: " : "") + problem + "; " + how;
  parts->problem = std::move(problem);
  parts->where = std::move(where);
  parts->how = std::move(how);
  parts_ = std::move(parts);
}

Error::Error(const Error&) = default;
Error& Error::operator=(const Error&) = default;
Error::~Error() = default;
const char* Error::what() const noexcept { return parts_->all.c_str(); }
const std::string& Error::problem() const noexcept { return parts_->problem; }
const std::string& Error::where() const noexcept { return parts_->where; }
const std::string& Error::how() const noexcept { return parts_->how; }
ErrorKind Error::kind() const noexcept { return parts_->kind; }

}  // namespace stax

namespace stax::embed {
namespace {

constexpr size_t kLongestPlace = 200;

/// Positions of `mark` outside of quotes and brackets: the first, or the last.
size_t find_mark(std::string_view text, std::string_view mark, bool last) {
  size_t found = std::string_view::npos;
  int depth = 0;
  bool quoted = false;
  for (size_t k = 0; k < text.size(); ++k) {
    char c = text[k];
    // An apostrophe within a word opens no quote.
    bool in_word = k > 0 && std::isalnum(static_cast<unsigned char>(text[k - 1])) && k + 1 < text.size() &&
                   std::isalnum(static_cast<unsigned char>(text[k + 1]));
    if (c == '\'' && !in_word) quoted = !quoted;
    if (quoted) continue;
    if (c == '(' || c == '[' || c == '{') ++depth;
    if (c == ')' || c == ']' || c == '}') depth = depth > 0 ? depth - 1 : 0;
    if (depth == 0 && text.substr(k).starts_with(mark)) {
      found = k;
      if (!last) return found;
    }
  }
  return found;
}

/// "input 'x'" or "'m.stax'" at the start of a sentence, and how long it is.
std::string place_in(std::string_view text, size_t& length) {
  for (std::string_view word : {"input '", "output '", "dim '", "file '", "'"}) {
    if (!text.starts_with(word)) continue;
    size_t end = text.find('\'', word.size());
    if (end == std::string_view::npos || end + 1 >= text.size() || (text[end + 1] != ' ' && text[end + 1] != ':'))
      return {};
    length = end + 1;
    return std::string(word == "'" ? text.substr(1, end - 1) : text.substr(0, end + 1));
  }
  return {};
}

}  // namespace

Error error_of_text(ErrorKind kind, const std::string& text, const std::string& where, const std::string& how) {
  std::string_view rest = text;
  std::string found_where, found_how;
  if (rest.starts_with(kUnsupportedPrefix)) {
    rest.remove_prefix(std::min(rest.find_first_not_of(' ', std::string_view(kUnsupportedPrefix).size()), rest.size()));
    kind = ErrorKind::kUnsupported;
  }
  if (rest.find('\n') != std::string_view::npos)
    return Error(kind, std::string(rest), where, how);  // a list of faults, each with its own parts
  if (size_t at = find_mark(rest, "; ", true); at != std::string_view::npos) {
    found_how = rest.substr(at + 2);
    rest = rest.substr(0, at);
  }
  size_t length = 0;
  found_where = place_in(rest, length);
  if (length > 0) {
    rest.remove_prefix(length);
    rest.remove_prefix(std::min(rest.find_first_not_of(": "), rest.size()));
  } else if (size_t at = find_mark(rest, ": ", false); at != std::string_view::npos && at > 0 && at < kLongestPlace) {
    found_where = rest.substr(0, at);
    rest = rest.substr(at + 2);
  }
  if (rest.empty()) rest = text;
  if (found_how.empty() && kind == ErrorKind::kUnsupported)
    found_how = "replace what is named by something that Stax supports";
  return Error(kind, std::string(rest), found_where.empty() ? where : found_where, found_how.empty() ? how : found_how);
}

void rethrow_as_public(const std::string& where, const std::string& how) {
  try {
    throw;
  } catch (const Error&) {
    throw;
  } catch (const CallerException& e) {
    std::rethrow_exception(e.exception);
  } catch (const UnsupportedError& e) {
    throw error_of_text(ErrorKind::kUnsupported, e.what(), where, how);
  } catch (const UserError& e) {
    std::string text = e.what();
    throw error_of_text(text.find("out of memory") != std::string::npos ? ErrorKind::kOutOfMemory : ErrorKind::kUser,
                        text, where, how);
  } catch (const std::bad_alloc&) {
    throw Error(ErrorKind::kOutOfMemory, "out of memory", where, "use smaller inputs or free memory");
  } catch (const std::exception& e) {
    throw Error(ErrorKind::kInternal, e.what(), where,
                "this is a fault of Stax's: report it with the model and the shapes; `stax bisect` finds the pass it "
                "comes from");
  } catch (...) {
    throw Error(ErrorKind::kInternal, "an exception of unknown type", where,
                "this is a fault of Stax's: report it with the model and the shapes");
  }
}

}  // namespace stax::embed
