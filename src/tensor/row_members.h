// SPDX-License-Identifier: Apache-2.0
#pragma once
// The members of a row group on their way into its body: all over the same axis variables, with loads that number the values of the
// whole group, so that equal expressions of different members are one pointer.
#include <functional>
#include <unordered_map>
#include <vector>

#include "tensor/graph.h"

namespace stax::tensor {

class RowMembers {
 public:
  /// `own`: axes that one member alone has.
  RowMembers(Graph& graph, std::vector<Axis> rows, std::vector<Axis> inner, std::vector<Axis> own)
      : graph_(graph), rows_(std::move(rows)), inner_(std::move(inner)), own_(std::move(own)) {}

  /// Adds a Compute; producers come before their consumers. `map` has the group's variable for each axis and reduction
  /// that is not of extent 1.
  void add(const Op& op, const symbolic::Substitution& map, const std::function<bool(const Op*)>& is_member);

  /// What several members compute at a point, where it is worth keeping, becomes a member of its own.
  void share_dear_values();

  /// The factor of a product that moves with the rows, where it is an operand, becomes a value of the row: a tile of rows then reads it side by
  /// side, and once. The other factor is read where its element really is, through the transposing map that a kernel of its own would need.
  void keep_factors();

  /// The group as an op in front of `before`, whose results are those of the members that have the given results.
  Op* make_op(Block& block, const std::vector<Value*>& results, Op* before);

 private:
  struct Member {
    Compute compute;  // loads are of values_
    Type type;
    std::string source;
    int value = -1;  // its number in values_
  };
  int number_of(const Value* v);
  int add_row_value(size_t before, std::vector<Axis> axes, Scalar body);
  bool is_made(int value) const;
  Scalar seen_through_map(Scalar load);
  std::pair<Scalar, Scalar> seen_in_place(Scalar load, const std::vector<Axis>& moving);
  void scale_sum(Compute& c, Scalar scale);
  bool moves_alone(Scalar load, Scalar other) const;
  static bool depends_only_on(Scalar load, const std::vector<Axis>& axes);
  bool varies(Scalar x);
  int weight_of(Scalar x);
  void collect(Scalar root, std::vector<Scalar>& found);
  Scalar dearest_shared(size_t& first);

  Graph& graph_;
  std::vector<Axis> rows_, inner_, own_;
  std::vector<Member> members_;
  std::vector<const Value*> values_;  // null: made by share_dear_values
  std::unordered_map<const Value*, int> numbers_;
  std::unordered_map<const ir::ScalarNode*, bool> varies_;
};

}  // namespace stax::tensor
